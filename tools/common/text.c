#include "common/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

text text_bytes(uint64_t bytes) {
  static const char *const units[] = {"KiB", "MiB", "GiB", "TiB"};
  text t;
  if (bytes < 1024) {
    snprintf(t.text, sizeof t.text, "%" PRIu64 " B", bytes);
    return t;
  }
  double value = (double)bytes / 1024;
  int unit = 0;
  while (value >= 1023.95 && unit < 3) value /= 1024, unit++;
  snprintf(t.text, sizeof t.text, "%.1f %s", value, units[unit]);
  return t;
}

text text_count(int64_t count) {
  char digits[24];
  int length = snprintf(digits, sizeof digits, "%" PRId64, count);
  text t;
  char *out = t.text;
  for (int i = 0; i < length; i++) {
    if (i && digits[i - 1] != '-' && (length - i) % 3 == 0) *out++ = ',';
    *out++ = digits[i];
  }
  *out = 0;
  return t;
}

text text_number(double count) {
  if (!(count > -0x1p63)) return text_count(count < 0 ? INT64_MIN : 0);
  return text_count(count < 0x1p63 ? (int64_t)count : INT64_MAX);
}

text text_time(double seconds) {
  text t;
  if (!(seconds >= 0) || seconds > 1e9) memcpy(t.text, "?", 2);
  else if (seconds < 9.95) snprintf(t.text, sizeof t.text, "%.1f s", seconds);
  else if (seconds < 120) snprintf(t.text, sizeof t.text, "%.0f s", seconds);
  else if (seconds < 7200)
    snprintf(t.text, sizeof t.text, "%d min %02d s", (int)seconds / 60, (int)seconds % 60);
  else
    snprintf(t.text, sizeof t.text, "%d h %02d min", (int)(seconds / 3600),
             (int)(seconds / 60) % 60);
  return t;
}

text text_duration(double seconds) {
  static const struct {
    const char *unit;
    double seconds;
  } units[] = {{"us", 1e-6}, {"ms", 1e-3}, {"s", 1}};
  int unit = 2;
  while (unit > 0 && seconds < 0.9995 * units[unit].seconds) unit--;
  double value = seconds / units[unit].seconds;
  text t;
  snprintf(t.text, sizeof t.text, "%.*f %s",
           value < 9.995   ? 2 + !unit
           : value < 99.95 ? 1
                           : 0,
           value, units[unit].unit);
  return t;
}

text text_fixed(double value, int decimals) {
  text t;
  if (isnan(value)) snprintf(t.text, sizeof t.text, "nan");
  else if (fabs(value) < 1e12) snprintf(t.text, sizeof t.text, "%.*f", decimals, value);
  else snprintf(t.text, sizeof t.text, "%.*g", decimals + 1, value);
  return t;
}
