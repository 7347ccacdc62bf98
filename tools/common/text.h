/* Quantities in the form people read. */
#ifndef TOOLS_COMMON_TEXT_H
#define TOOLS_COMMON_TEXT_H

#include <stdint.h>

typedef struct text {
  char text[32];
} text;

text text_bytes(uint64_t bytes);             /* "33.5 MiB" */
text text_count(int64_t count);              /* "1,115,394" */
text text_number(double count);              /* the same; the nearest that an int64_t can hold */
text text_time(double seconds);              /* "0.8 s", "42 s", "3 min 20 s", "2 h 05 min" */
text text_fixed(double value, int decimals); /* "3.1416", "inf", and "nan" whatever its sign */
text text_duration(double seconds);          /* to three digits: "0.521 us", "33.5 ms", "1.23 s" */

#endif
