/* Time. */
#ifndef AC_CORE_PLATFORM_CLOCK_H
#define AC_CORE_PLATFORM_CLOCK_H

double ac_clock(void);         /* seconds, monotonic */
void ac_sleep(double seconds); /* or less, if a signal comes */

#endif
