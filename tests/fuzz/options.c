/* The program's flags and their numbers: the input's lines are the arguments. */
#include "fuzz.h"

#include "common/message.h"
#include "common/help.h"
#include "common/options.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* What the flags' parser says goes into a buffer, as it must be one line. */
int fail_usage(const char *format, ...) {
  char sentence[512];
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(sentence, sizeof sentence, format, arguments);
  va_end(arguments);
  FUZZ_CHECK(length > 0);
  return STATUS_USAGE;
}

static void run(const uint8_t *data, size_t bytes) {
  bool given = false;
  const char *text = NULL;
  int64_t integer = 1, exact = 1;
  double real = 0, share = 0;
  uint64_t size = 1;
  int choice = 0;
  const option rows[] = {
      {"given", NULL, OPTION_SWITCH, &given, .help = ""},
      {"text", "T", OPTION_TEXT, &text, .help = ""},
      {"integer", "N", OPTION_INTEGER, &integer, .help = "", .least = 1, .most = 1 << 30},
      {"exact", "N", OPTION_INTEGER, &exact, .help = "", .least = 1},
      {"real", "X", OPTION_REAL, &real, .help = ""},
      {"share", "X", OPTION_REAL, &share, .help = "", .least = 0, .most = 1, .below_most = true},
      {"size", "SIZE", OPTION_SIZE, &size, .help = ""},
      {"choice", "red|green", OPTION_CHOICE, &choice, .help = ""},
  };
  options all = {.command = "fuzz", .summary = ""};
  OPTIONS_ADD(&all, rows);
  char words[1024], *argv[128];
  int argc = 0;
  if (bytes >= sizeof words) bytes = sizeof words - 1;
  memcpy(words, data, bytes);
  words[bytes] = 0;
  for (char *word = strtok(words, "\n"); word && argc < 128; word = strtok(NULL, "\n"))
    if (help_asked(word) == HELP_NONE) argv[argc++] = word;
  int status = options_parse(&all, argc, argv);
  FUZZ_CHECK(status == STATUS_CONTINUE || status == STATUS_USAGE);
  FUZZ_CHECK(integer >= 1 && integer <= 1 << 30 && exact >= 1);
  FUZZ_CHECK(isfinite(real) && real >= 0 && share >= 0 && share < 1);
  FUZZ_CHECK(size >= 1 && choice >= 0 && choice < 2);
}

static void seeds(fuzz_take take) {
  static const char *const lines[] = {
      "--integer=12\n--exact\n9223372036854775807\n--real=1.5e-3\n--share=0.9\n--given",
      "--size\n1.5GiB\n--choice=green\n--text=any thing\n--size=64MiB", "--intger\n3"};
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) take(lines[i], strlen(lines[i]));
}

const fuzz_format fuzz_options = {"options", run, seeds};
