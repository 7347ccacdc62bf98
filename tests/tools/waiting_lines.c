/* The program's lines about waiting, also during a single step that takes long. */
#define _GNU_SOURCE /* posix_openpt */
#include "support/check.h"

#include "common/waiting.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static int real_stderr, reader;
static char told[4096];

static void begin(int writer, int reader_) {
  reader = reader_;
  told[0] = 0;
  fflush(stderr);
  real_stderr = dup(STDERR_FILENO);
  dup2(writer, STDERR_FILENO);
  close(writer);
}

static void begin_with_pipe(void) {
  int ends[2];
  assert_int_equal(pipe2(ends, O_NONBLOCK), 0);
  begin(ends[1], ends[0]);
}

static void begin_with_terminal(void) {
  const int master = posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK);
  if (master < 0 || grantpt(master) != 0 || unlockpt(master) != 0) skip();
  const int terminal = open(ptsname(master), O_RDWR | O_NOCTTY);
  if (terminal < 0) skip();
  begin(terminal, master);
}

/* Adds what was written since. */
static void look(void) {
  const size_t length = strlen(told);
  const ssize_t more = read(reader, told + length, sizeof told - 1 - length);
  if (more > 0) told[length + (size_t)more] = 0;
}

static void finish(void) {
  look();
  dup2(real_stderr, STDERR_FILENO);
  close(real_stderr);
  close(reader);
}

static void say(const char *line) {
  waiting_log(NULL, AC_LOG_INFO, line);
}

static void pause_for(double seconds) {
  nanosleep(&(struct timespec){(time_t)seconds, (long)(1e9 * (seconds - (double)(time_t)seconds))},
            NULL);
}

/* Until the text was told; false after some seconds. */
static bool tells(const char *text) {
  for (int i = 0; i < 100; i++) {
    look();
    if (strstr(told, text)) return true;
    pause_for(0.1);
  }
  return false;
}

static void test_one_long_line(void **state) {
  (void)state;
  begin_with_pipe();
  say("d: measured 3 ops in 0.1 s");
  say("d: compiling gemm...");
  const bool in_time = tells("d: compiling gemm...\n");
  say("d: preparing 3 ops took 2.0 s");
  finish();
  assert_true(in_time);
  assert_string_equal(told, "d: compiling gemm...\nd: preparing 3 ops took 2.0 s\n");
}

static void test_one_long_line_on_a_terminal(void **state) {
  (void)state;
  begin_with_terminal();
  say("d: measured 3 ops in 0.1 s");
  say("d: compiling gemm (1 of 2)...");
  const bool in_time = tells("############............ d: compiling gemm (1 of 2)...\r");
  say("d: compiling add (2 of 2)...");
  const bool next = tells("######################## d: compiling add (2 of 2)...\r");
  say("d: preparing 2 ops took 0.5 s");
  finish();
  assert_true(in_time);
  assert_true(next);
}

static void test_a_short_one(void **state) {
  (void)state;
  begin_with_pipe();
  say("d: compiling gemm...");
  say("d: preparing 3 ops took 0.0 s");
  pause_for(1.3);
  finish();
  assert_string_equal(told, "");
}

static void test_a_short_one_that_ends_in_a_warning(void **state) {
  (void)state;
  begin_with_pipe();
  say("d: measuring gemm (1 of 3)...");
  waiting_log(NULL, AC_LOG_WARNING, "d: measured 3 ops in 0.0 s; the speed of 2 is an estimate");
  finish();
  assert_string_equal(told, "d: measured 3 ops in 0.0 s; the speed of 2 is an estimate\n");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_one_long_line),
      cmocka_unit_test(test_one_long_line_on_a_terminal),
      cmocka_unit_test(test_a_short_one),
      cmocka_unit_test(test_a_short_one_that_ends_in_a_warning),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
