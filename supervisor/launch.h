/* The way into a sandbox, under the name `launch`: what has to be done before bubblewrap runs and that Python cannot do. */
#ifndef PADDOCK_LAUNCH_H
#define PADDOCK_LAUNCH_H

int launch_main(int argc, char **argv);
int show_main(int argc, char **argv);

#endif
