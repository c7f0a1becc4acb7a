#include "terminal.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#ifndef TIOCGPTPEER
#define TIOCGPTPEER _IO('T', 0x41)
#endif

void terminal_resize(int master, uint16_t rows, uint16_t columns)
{
    struct winsize size = {.ws_row = rows, .ws_col = columns};

    ioctl(master, TIOCSWINSZ, &size);
}

int terminal_open(uint16_t rows, uint16_t columns, int *slave)
{
    int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);

    if (master < 0)
        return -1;
    /* The other end by its handle: a path could lead to somebody else's terminal. */
    if (grantpt(master) == 0 && unlockpt(master) == 0)
        *slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
    else
        *slave = -1;
    if (*slave < 0) {
        close(master);
        return -1;
    }
    terminal_resize(master, rows, columns);
    return master;
}
