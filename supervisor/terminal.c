#include "terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#ifndef TIOCGPTPEER
#define TIOCGPTPEER _IO('T', 0x41)
#endif

void terminal_resize(int master, uint16_t rows, uint16_t columns)
{
    struct winsize size = {.ws_row = rows, .ws_col = columns};

    ioctl(master, TIOCSWINSZ, &size);
}

/* By its path where there is no handle, as in older kernels of gVisor: a path could lead to somebody else's terminal, so that
 * it is ours is looked at. */
static int open_by_path(int master)
{
    char path[32];
    unsigned number;
    struct stat info;

    if (ioctl(master, TIOCGPTN, &number) < 0)
        return -1;
    snprintf(path, sizeof path, "/dev/pts/%u", number);
    int slave = open(path, O_RDWR | O_NOCTTY | O_NOFOLLOW | O_CLOEXEC);
    if (slave >= 0 && (fstat(slave, &info) < 0 || !S_ISCHR(info.st_mode) || minor(info.st_rdev) != number)) {
        close(slave);
        return -1;
    }
    return slave;
}

static int open_other_end(int master)
{
    int slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);

    return slave >= 0 || errno != ENOTTY ? slave : open_by_path(master);
}

int terminal_open(uint16_t rows, uint16_t columns, int *slave)
{
    int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);

    if (master < 0)
        return -1;
    *slave = grantpt(master) == 0 && unlockpt(master) == 0 ? open_other_end(master) : -1;
    if (*slave < 0) {
        close(master);
        return -1;
    }
    terminal_resize(master, rows, columns);
    return master;
}
