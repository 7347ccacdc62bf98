/* Signals that stop a run: the first asks for it, a later one ends the program at once. */
#ifndef TOOLS_PROGRAM_STOP_H
#define TOOLS_PROGRAM_STOP_H

/* From now on. A signal that was ignored when the program started stays ignored. */
void stop_watch(void);
int stop_signal(void); /* the first that came; 0: none */

#endif
