/* Terminals for commands. */
#ifndef PADDOCK_TERMINAL_H
#define PADDOCK_TERMINAL_H

#include <stdint.h>

/* A new terminal: our end of it, and the command's in `slave`; or -1. */
int terminal_open(uint16_t rows, uint16_t columns, int *slave);
void terminal_resize(int master, uint16_t rows, uint16_t columns);

#endif
