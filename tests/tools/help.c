/* Text that roff would take for commands comes out of a manual page unchanged. */
#include "unit/check.h"

#include "common/help.h"

#include <stdlib.h>

static char *put(help_form form, const help_flag *flag) {
  char *text;
  size_t size;
  help h = {.out = open_memstream(&text, &size), .form = form, .command = "train"};
  help_put_flag(&h, flag);
  fclose(h.out);
  return text;
}

static void test_roff(void **state) {
  (void)state;
  const struct {
    const char *text, *roff;
  } cases[] = {
      {"plain", "plain"},
      {".so /etc/passwd", "\\&.so /etc/passwd"},
      {"one\n.two", "one\n\\&.two"},
      {"a point. And one", "a point. And one"},
      {"'quoted'", "\\&\\(aqquoted\\(aq"},
      {"C:\\new", "C:\\enew"},
      {"--flag -1", "\\-\\-flag \\-1"},
      {"a|b", "a|\\:b"},
      {"~ ^ ` \"", "\\(ti \\(ha \\(ga \\(dq"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char expected[256];
    char *text = put(HELP_MAN, &(help_flag){.name = "--name", .text = cases[i].text});
    snprintf(expected, sizeof expected, ".TP\n\\fB\\-\\-name\\fR\n%s\n", cases[i].roff);
    assert_string_equal(text, expected);
    free(text);
  }
}

static void test_text(void **state) {
  (void)state;
  char *text = put(HELP_TEXT, &(help_flag){"--data", "PATH", ".a\\b", "none"});
  assert_string_equal(text, "  --data PATH                      .a\\b (none)\n");
  free(text);
}

static void test_forms(void **state) {
  (void)state;
  assert_int_equal(help_asked("--help"), HELP_TEXT);
  assert_int_equal(help_asked("-h"), HELP_TEXT);
  assert_int_equal(help_asked("--help=man"), HELP_MAN);
  assert_int_equal(help_asked("--help=html"), HELP_NONE);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_roff), cmocka_unit_test(test_text),
                                     cmocka_unit_test(test_forms)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
