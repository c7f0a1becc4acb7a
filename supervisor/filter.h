/* The filter that every command gets: which system calls it may make. */
#ifndef PADDOCK_FILTER_H
#define PADDOCK_FILTER_H

#include <stdbool.h>

/* Read it from this descriptor and close that (-1: there is none). Ends the program if the kernel does not take it. */
void filter_open(int fd);
/* Give it to this process, for good; false if that fails. Fit for a child that shares our memory. */
bool filter_load(void);

#endif
