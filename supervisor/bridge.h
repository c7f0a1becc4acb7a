/* `paddock-bridge SOCKET`: standard input and output, connected to a socket. */
#ifndef PADDOCK_BRIDGE_H
#define PADDOCK_BRIDGE_H

/* The exit code. */
int bridge_main(int argc, char **argv);

#endif
