/* Which system calls may be made: by every command, and by ourselves. */
#ifndef PADDOCK_FILTER_H
#define PADDOCK_FILTER_H

#include <stdbool.h>

/* Read a filter from this descriptor, close that, and give it to this process and all that it starts. Ends the program if the
 * kernel does not take it. Where bubblewrap starts us it has done that; before filter_open. */
void filter_confine(int fd);
/* Read the one for commands from this descriptor and close that (-1: there is none). Ends the program if the kernel does not take it. */
void filter_open(int fd);
/* Give it to this process, for good; false if that fails. Fit for a child that shares our memory. */
bool filter_load(void);
/* Whether there is one for commands. */
bool filter_exists(void);

#endif
