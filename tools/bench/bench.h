/* The command `accrue bench`. */
#ifndef TOOLS_BENCH_BENCH_H
#define TOOLS_BENCH_BENCH_H

/* As the commands of program/commands.h. */
int bench_main(int argc, char **argv);

#endif
