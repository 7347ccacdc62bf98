/* Models that became NaN. */
#ifndef TOOLS_PROGRAM_FINITE_H
#define TOOLS_PROGRAM_FINITE_H

/* Says that `what` a model file yields is not finite, and the first tensor of it that is not
 * either, if there is one. Returns STATUS_FAILED. */
int fail_not_finite(const char *path, const char *what);

#endif
