/* What tells one dataset from another: XXH3 of its fields' descriptions, the number of its samples,
 * and the samples themselves, of a large dataset as many as FINGERPRINT_SAMPLES, evenly spaced. */
#ifndef TOOLS_PROGRAM_FINGERPRINT_H
#define TOOLS_PROGRAM_FINGERPRINT_H

#include <accrue/dataset.h>

enum { FINGERPRINT_SAMPLES = 16384 };

/* 16 hexadecimal digits. Returns a status of message.h. */
int fingerprint(ac_dataset *dataset, char text[17]);

#endif
