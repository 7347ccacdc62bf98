/* Text that roff would take for commands comes out of a manual page unchanged. */
#include "support/check.h"

#include "common/flag_text.h"
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
  char *text =
      put(HELP_TEXT,
          &(help_flag){.name = "--data", .argument = "PATH", .text = ".a\\b", .note = "none"});
  assert_string_equal(text, "  --data PATH              .a\\b (none)\n");
  free(text);
}

static const char text[] = "First **line** of\n`--flag` and [a page](../page.md#part), "
                           "[one](flag.md).\n\n- one\n- two that is\n  long\n\n"
                           "```\n.so /etc/passwd\n```\nLast.\n\n    accrue -h\n\n    more\n";

static char *marked(int width, const char *next) {
  char *result;
  size_t size;
  FILE *out = open_memstream(&result, &size);
  if (next) flag_text_put_roff(out, text, next);
  else flag_text_put(out, text, 2, width);
  fclose(out);
  return result;
}

static void test_marks(void **state) {
  (void)state;
  char *wide = marked(80, NULL), *narrow = marked(16, NULL), *page = marked(0, ".IP");
  assert_string_equal(
      wide,
      "  First line of --flag and a page (docs/page.md), one.\n\n  - one\n  - two that is long\n\n"
      "      .so /etc/passwd\n\n  Last.\n\n      accrue -h\n\n      more\n");
  assert_string_equal(narrow,
                      "  First line of\n  --flag and a\n  page\n  (docs/page.md),\n  one.\n\n  - "
                      "one\n  - two that is\n    long\n\n"
                      "      .so /etc/passwd\n\n  Last.\n\n      accrue -h\n\n      more\n");
  assert_string_equal(page,
                      "First line of \\-\\-flag and a page (docs/page.md), one.\n.RS\n.IP \\(bu "
                      "2\none\n.RE\n.RS\n.IP \\(bu 2\n"
                      "two that is long\n.RE\n.RS\n.nf\n\\&.so /etc/passwd\n.fi\n.RE\n.IP\nLast.\n"
                      ".RS\n.nf\naccrue \\-h\n\nmore\n.fi\n.RE\n");
  free(wide);
  free(narrow);
  free(page);
}

static void test_forms(void **state) {
  (void)state;
  assert_int_equal(help_asked("--help"), HELP_TEXT);
  assert_int_equal(help_asked("-h"), HELP_TEXT);
  assert_int_equal(help_asked("--help=man"), HELP_MAN);
  assert_int_equal(help_asked("--help=lr"), HELP_TEXT);
  assert_int_equal(help_asked("--helpful"), HELP_NONE);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_roff), cmocka_unit_test(test_text),
                                     cmocka_unit_test(test_forms), cmocka_unit_test(test_marks)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
