#include "kept.h"

#include "driver.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The values of codes from the least on, as arXiv 2110.02861 makes them: of each decade the middles
 * of 2^i equal parts for each sign, or twice as many without. */
typedef struct code_values {
  double of[256];
} code_values;

static int compare_reals(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

static const code_values *values_of(bool is_signed) {
  static code_values made[2];
  code_values *values = &made[is_signed];
  if (values->of[255] == 1) return values;
  int count = 0;
  for (int i = 0; i < 7; i++) {
    const int parts = (is_signed ? 1 : 2) << i;
    for (int j = 0; j < parts; j++) {
      const double value = pow(10, i - 6) * (0.1 + 0.9 * (j + 0.5) / parts);
      values->of[count++] = value;
      if (is_signed) values->of[count++] = -value;
    }
  }
  values->of[count++] = 0;
  values->of[count++] = 1;
  qsort(values->of, 256, sizeof *values->of, compare_reals);
  return values;
}

double op_code_value(int code, bool is_signed) {
  return values_of(is_signed)->of[code];
}

float op_block_scale(const double *block) {
  unsigned char bytes[sizeof(float)];
  float scale;
  for (int i = 0; i < 4; i++) bytes[i] = (unsigned char)block[256 + i];
  memcpy(&scale, bytes, sizeof scale);
  return scale;
}

/* The nearest code, but none of zero for what is not. */
static int code_of(const code_values *values, double x, bool is_signed) {
  int code = 0;
  while (code < 255 && (values->of[code] + values->of[code + 1]) / 2 <= x) code++;
  return code == 0 && x > 0 && !is_signed ? 1 : code;
}

double *op_take_kept(const ac_operand *x, int64_t count, bool is_signed) {
  const double *from = op_reals(x);
  if (x->dtype != AC_U8) return op_reals(x);
  double *kept = malloc((size_t)count * sizeof *kept);
  for (int64_t i = 0; i < count; i++) {
    const double *block = from + i / 256 * 260;
    kept[i] = values_of(is_signed)->of[(int)block[i % 256]] * (double)op_block_scale(block);
  }
  return kept;
}

void op_put_kept(ac_operand *x, double *kept, int64_t count, bool is_signed) {
  if (x->dtype != AC_U8) return;
  for (int64_t at = 0; at * 256 < count; at++) {
    double *block = op_reals(x) + at * 260, largest = 0;
    unsigned char bytes[sizeof(float)];
    const int64_t most = count - at * 256 < 256 ? count - at * 256 : 256;
    for (int i = 0; i < most; i++) largest = fmax(largest, fabs(kept[at * 256 + i]));
    for (int i = 0; i < 256; i++)
      block[i] = code_of(values_of(is_signed),
                         i < most && largest > 0 ? kept[at * 256 + i] / largest : 0, is_signed);
    const float scale = (float)largest;
    memcpy(bytes, &scale, sizeof scale);
    for (int i = 0; i < 4; i++) block[256 + i] = bytes[i];
  }
  free(kept);
}
