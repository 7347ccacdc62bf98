/* Text that others chose is shown, and never obeyed by a terminal. */
#include "support/check.h"
#undef fail /* of cmocka; the program has a function of that name */

#include "common/message.h"

#include <stdlib.h>
#include <string.h>

/* What becomes of some bytes; *left: those that are not written. */
static const char *shown(const char *bytes, size_t size, bool lines, size_t *left) {
  static char text[256];
  FILE *stream = fmemopen(text, sizeof text, "w");
  *left = size - message_put_some(stream, bytes, size, lines);
  fclose(stream);
  return text;
}

static void characters_are_told_apart(void **state) {
  (void)state;
  static const struct {
    const char *bytes, *shown;
    bool lines;
    size_t left;
  } cases[] = {
      {"plain ~", "plain ~", .lines = false},
      {"\x1b[2J\a", "\\x1b[2J\\x07", .lines = false},
      {"a\nb\tc\r", "a\\x0ab\\x09c\\x0d", .lines = false},
      {"a\nb\tc\r", "a\nb\tc\\x0d", .lines = true},
      {"\x7f", "\\x7f", .lines = true},
      {"\xc2\x9b"
       "31m",
       "\\xc2\\x9b31m", .lines = true}, /* U+009B, an 8-bit CSI */
      {"\xc2\xa0\xc3\xbc\xe6\x97\xa5\xf0\x9f\x98\x80",
       "\xc2\xa0\xc3\xbc\xe6\x97\xa5\xf0\x9f\x98\x80", .lines = true},
      {"\xe2\x80\xae\xe2\x81\xa6\xd8\x9c", "\\xe2\\x80\\xae\\xe2\\x81\\xa6\\xd8\\x9c",
       .lines = true},
      {"\xe2\x80\xa2\xe2\x80\x94", "\xe2\x80\xa2\xe2\x80\x94", .lines = true}, /* bullet, dash */
      {"\x9b\xff\xc3(", "\\x9b\\xff\\xc3(", .lines = true},                    /* not UTF-8 */
      {"\xc0\x9b\xe0\x82\x9b", "\\xc0\\x9b\\xe0\\x82\\x9b", .lines = true},    /* too long */
      {"\xed\xa0\x80", "\\xed\\xa0\\x80", .lines = true},                      /* half of a pair */
      {"\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80", .lines = true},             /* beyond U+10FFFF */
      {"a\xe6\x97", "a", .lines = true, .left = 2}, /* may become whole */
      {"a\xf0", "a", .lines = true, .left = 1},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    size_t left;
    assert_string_equal(shown(cases[i].bytes, strlen(cases[i].bytes), cases[i].lines, &left),
                        cases[i].shown);
    assert_int_equal(left, cases[i].left);
  }
}

static void formats_end_lines_and_arguments_do_not(void **state) {
  (void)state;
  char text[256];
  FILE *stream = fmemopen(text, sizeof text, "w");
  message_put(stream, "%s|%5s|\n", "a\nb\xe6\x97", "\x1b");
  fclose(stream);
  assert_string_equal(text, "a\\x0ab\\xe6\\x97|    \\x1b|\n");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(characters_are_told_apart),
      cmocka_unit_test(formats_end_lines_and_arguments_do_not),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
