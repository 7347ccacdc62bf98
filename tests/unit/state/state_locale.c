/* States in a program that writes numbers with a decimal comma: they have the same bytes, and can
 * be read. The locale is the system's, or one that localedef makes. */
#include "support/victims.h"

#include <locale.h>

static bool takes_comma(const char *name) {
  return setlocale(LC_ALL, name) && !strcmp(localeconv()->decimal_point, ",");
}

static bool make_locale(void) {
  const test_path made = in_folder("de_DE.UTF-8");
  char command[sizeof made.text + sizeof test_folder + 64];
  snprintf(command, sizeof command, "localedef -i de_DE -f UTF-8 '%s' >'%s/log' 2>&1", made.text,
           test_folder);
  return system(command) == 0 && setenv("LOCPATH", test_folder, 1) == 0;
}

static bool set_comma(void) {
  static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "fr_FR.utf8"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (takes_comma(names[i])) return true;
  return make_locale() && takes_comma("de_DE.UTF-8");
}

static void assert_same_bytes(const char *a, const char *b) {
  size_t sizes[2];
  unsigned char *files[] = {read_file(a, &sizes[0]), read_file(b, &sizes[1])};
  assert_int_equal(sizes[0], sizes[1]);
  assert_memory_equal(files[0], files[1], sizes[0]);
  free(files[0]);
  free(files[1]);
}

static const ac_trainer_desc by_tenths = {
    .seed = 3,
    .schedule = {.lr = 0.02},
    .loss_scaling = {.kind = AC_LOSS_SCALING_STATIC, .scale = 0.1}};

static void a_decimal_comma_changes_nothing(void **state) {
  (void)state;
  run r = begin_run(&both, &split, &by_tenths, 3, 2);
  const test_path plain = save_run(&r, "plain");
  if (!set_comma()) {
    end_run(&r);
    skip();
  }
  char number[8];
  snprintf(number, sizeof number, "%.1f", 0.5);
  assert_string_equal(number, "0,5");
  const test_path comma = save_run(&r, "comma");
  assert_same_bytes(plain.text, comma.text);

  run other = begin_run(&both, &split, &by_tenths, 0, 0);
  assert_ok(ac_trainer_load_state(other.trainer, plain.text));
  const snapshot saved = look_at(&r), loaded = look_at(&other);
  assert_same("a state that was loaded", &saved, &loaded);
  assert_same_bytes(plain.text, save_run(&other, "again").text);
  end_run(&other);
  end_run(&r);
  snprintf(number, sizeof number, "%.1f", 0.5); /* the locale is the caller's still */
  assert_string_equal(number, "0,5");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_decimal_comma_changes_nothing)};
  return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
