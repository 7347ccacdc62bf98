/* What the table of a plan says of precisions on devices that have instructions for bf16, and on
 * those that have none. */
#include "unit/check.h"

#include "program/plan_table.h"

#include <string.h>

static const ac_device_info floats = {.id = "cpu"}, pairs = {.id = "cpu", .bf16_arithmetic = true};

static bool says(const ac_device_info *device, ac_precision precision, const char *words) {
  char text[PLAN_TABLE_BYTES];
  const ac_plan_info plan = {.precision = precision, .accumulation_steps = 1};
  return strstr(plan_table_text(text, sizeof text, device, &plan), words);
}

static void the_fast_precision(void **state) {
  (void)state;
  assert_string_equal(plan_fast_precision(&floats), "f32");
  assert_string_equal(plan_fast_precision(&pairs), "bf16");
}

static void what_is_fast_already_needs_no_words(void **state) {
  (void)state;
  assert_true(says(&floats, AC_PRECISION_F32, "precision    f32\n"));
  assert_true(says(&pairs, AC_PRECISION_BF16, "precision    bf16\n"));
}

static void what_is_slower_is_said(void **state) {
  (void)state;
  assert_true(says(&floats, AC_PRECISION_BF16, "bf16; this device multiplies in f32"));
  assert_true(says(&floats, AC_PRECISION_F16, "f16; this device multiplies in f32"));
  assert_true(says(&pairs, AC_PRECISION_F32, "f32; this device is fast in bf16"));
  assert_true(says(&pairs, AC_PRECISION_F16, "f16; this device is fast in bf16"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_fast_precision),
      cmocka_unit_test(what_is_fast_already_needs_no_words),
      cmocka_unit_test(what_is_slower_is_said),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
