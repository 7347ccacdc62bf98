/* `accrue train --device A,B`: several devices of one machine train one model. Without a launcher
 * the ranks are threads of this process, one for each device; under one the ranks of a machine take
 * its devices in turn. */
#ifndef TOOLS_PROGRAM_RANK_DEVICES_H
#define TOOLS_PROGRAM_RANK_DEVICES_H

#include "program/rank_threads.h"
#include "program/train_run.h"

typedef struct rank_devices {
  char text[1024];
  const char *names[MOST_RANK_THREADS];
  int count; /* 1: the flag names one device, or is not given */
} rank_devices;

/* What the command line says. A name with a comma in it is one, unless all parts are names of
 * devices. A status of message.h. */
int rank_devices_find(rank_devices *devices, int argc, char **argv);

/* How many devices the value of the flag names. */
int rank_devices_count(const char *text);

/* `accrue train` by threads of this process. `summary` is that of rank 0. The exit status. */
int rank_devices_train(const rank_devices *devices, int argc, char **argv, train_summary *summary);

#endif
