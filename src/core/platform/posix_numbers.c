/* POSIX. */
#include "core/platform/numbers.h"

#include <locale.h>

ac_plain_numbers ac_plain_numbers_begin(void) {
  locale_t plain = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0);
  return (ac_plain_numbers){plain, plain ? uselocale(plain) : NULL};
}

void ac_plain_numbers_end(const ac_plain_numbers *numbers) {
  if (!numbers->plain) return;
  uselocale(numbers->before);
  freelocale(numbers->plain);
}
