/* What tells the data of one run from those of another: XXH3 of what it trains on before
 * augmentation, of what validates it, and of its share (--rank). Of each of these the descriptions
 * of the fields count, the number of samples, and the samples. Of a large dataset evenly spaced
 * samples of FINGERPRINT_BYTES in all count. Of pictures the names of files and the classes count,
 * and a few samples. */
#ifndef TOOLS_PROGRAM_FINGERPRINT_H
#define TOOLS_PROGRAM_FINGERPRINT_H

#include "program/data.h"

enum { FINGERPRINT_BYTES = 256 << 20 };

/* 16 hexadecimal digits. Returns a status of message.h. */
int fingerprint(const train_data *data, const char *rank, char text[17]);

/* Of all bytes of a file. */
int fingerprint_file(const char *path, char text[17]);

#endif
