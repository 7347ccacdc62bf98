/* Threads, and what they wait for. */
#ifndef AC_CORE_PLATFORM_THREADS_H
#define AC_CORE_PLATFORM_THREADS_H

#include <accrue/base.h>

/* Runs `once` exactly once per flag, also from several threads. */
typedef struct ac_once {
  int state; /* zero-initialised */
} ac_once;
void ac_call_once(ac_once *flag, void (*once)(void));

/* A thread, which receives none of the process's signals. */
typedef struct ac_thread ac_thread;
ac_status ac_thread_start(ac_thread **thread, void (*run)(void *user), void *user);
void ac_thread_join(ac_thread *thread); /* waits for its end and frees it; NULL: nothing */
size_t ac_thread_stack_bytes(void);     /* of a thread that is not told otherwise; 0: unknown */

/* A lock, and a condition that threads that hold it can wait for. */
typedef struct ac_monitor ac_monitor;
ac_monitor *ac_monitor_create(void); /* or NULL */
void ac_monitor_free(ac_monitor *monitor);
void ac_monitor_lock(ac_monitor *monitor);
void ac_monitor_unlock(ac_monitor *monitor);
void ac_monitor_wait(ac_monitor *monitor); /* gives up the lock until woken, perhaps for nothing */
void ac_monitor_wait_for(ac_monitor *monitor, double seconds); /* the same, at most so long */
void ac_monitor_wake(ac_monitor *monitor); /* all that wait; called with the lock held */

#endif
