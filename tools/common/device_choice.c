/* To find a GPU, every OpenCL driver must be loaded, and a driver stays in the process that loaded
 * it. PoCL's holds about 70 MiB, which no budget counts, even if the CPU is chosen. So another
 * process of this program looks, with `accrue devices --auto`, and ends. If that does not work,
 * this process looks. */
#include "common/device_choice.h"

#include "common/message.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* Starts the process with its output in `pipe`. Messages of drivers are dropped, as the device that
 * is used repeats them. */
static bool start(pid_t *child, const int pipe[2]) {
  char *const argv[] = {"accrue", "devices", "--auto", NULL};
  posix_spawn_file_actions_t actions;
  if (posix_spawn_file_actions_init(&actions) != 0) return false;
  const bool started =
      posix_spawn_file_actions_addclose(&actions, pipe[0]) == 0 &&
      posix_spawn_file_actions_adddup2(&actions, pipe[1], STDOUT_FILENO) == 0 &&
      posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0) == 0 &&
      posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0) == 0 &&
      posix_spawn(child, "/proc/self/exe", &actions, NULL, argv, environ) == 0;
  posix_spawn_file_actions_destroy(&actions);
  return started;
}

/* A name and a line end, as "opencl:0\n". Anything else does not count as an answer. */
static bool read_answer(int from, char *text, size_t size) {
  size_t length = 0;
  ssize_t got;
  while (length < size - 1 && (got = read(from, text + length, size - 1 - length)) > 0)
    length += (size_t)got;
  text[length] = 0;
  char *end = strchr(text, '\n');
  if (!end || end == text || end[1]) return false;
  *end = 0;
  return true;
}

/* Whether a fault ended the process, and not a signal that somebody sent. */
static bool has_crashed(pid_t child) {
  int status;
  if (waitpid(child, &status, 0) != child || !WIFSIGNALED(status)) return false;
  const int by = WTERMSIG(status);
  return by == SIGABRT || by == SIGSEGV || by == SIGBUS || by == SIGILL || by == SIGFPE;
}

const char *device_choose(const char *name) {
  static char found[64];
  int pipe_ends[2];
  pid_t child;
  if (name && *name && strcasecmp(name, "auto") != 0) return name;
  if (*found) return found;
  if (pipe(pipe_ends) != 0) return name;
  /* Above the three descriptors that the child gets new. */
  const bool started =
      pipe_ends[0] > STDERR_FILENO && pipe_ends[1] > STDERR_FILENO && start(&child, pipe_ends);
  close(pipe_ends[1]);
  if (started) {
    if (!read_answer(pipe_ends[0], found, sizeof found)) *found = 0;
    if (has_crashed(child) && !*found) {
      say("an OpenCL driver crashed while Accrue looked for a GPU; the CPU is used");
      snprintf(found, sizeof found, "cpu");
    }
  }
  close(pipe_ends[0]);
  return *found ? found : name;
}
