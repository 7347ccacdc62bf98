/* Numbers as text. */
#ifndef AC_CORE_PLATFORM_NUMBERS_H
#define AC_CORE_PLATFORM_NUMBERS_H

/* Between the two calls numbers are written and read with a decimal point in this thread, whatever
 * the process's locale is. */
typedef struct ac_plain_numbers {
  void *plain, *before;
} ac_plain_numbers;
ac_plain_numbers ac_plain_numbers_begin(void);
void ac_plain_numbers_end(const ac_plain_numbers *numbers);

#endif
