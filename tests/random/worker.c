/* A child process works, and leaves its results in memory that it shares with its parent. The
 * parent runs nothing that starts threads, so that it can make further children. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "worker.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SECONDS = 300 }; /* for one graph: OpenCL compiles kernels for it */

typedef struct desk {
  volatile int64_t index;
  volatile int choice;
  random_counts counts;
  random_verdict verdict;
} desk;

static desk *make_desk(void) {
  desk *d = mmap(NULL, sizeof *d, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (d != MAP_FAILED) return d;
  perror("mmap");
  exit(1);
}

static void check_range(desk *d, const random_job *job, int64_t first, int64_t end) {
  for (int64_t i = first; i < end && !d->verdict.text[0]; i++) {
    random_recipe recipe = random_draw(job->seed, i, job->wanted);
    random_choice choices[RANDOM_CHOICES];
    random_choose(choices, job->seed, i, job->opencl);
    d->index = i;
    alarm(SECONDS);
    random_check(&d->verdict, &d->counts, &recipe, choices, ~0u, job->opencl, &d->choice);
  }
}

/* Waits for the child; what ended it early becomes the verdict. */
static void wait_for(desk *d, pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  if (WIFSIGNALED(status))
    snprintf(d->verdict.text, sizeof d->verdict.text, "%s (signal %d)",
             WTERMSIG(status) == SIGALRM ? "hangs" : "crashes", WTERMSIG(status));
  else if (WEXITSTATUS(status) && !d->verdict.text[0])
    snprintf(d->verdict.text, sizeof d->verdict.text, "ends the process with status %d",
             WEXITSTATUS(status));
}

static void finish(desk *d, random_failure *failure) {
  failure->index = d->index;
  failure->choice = d->choice;
  memcpy(failure->text, d->verdict.text, sizeof failure->text);
  munmap(d, sizeof *d);
}

static pid_t begin_child(void) {
  fflush(NULL);
  pid_t child = fork();
  if (child >= 0) return child;
  perror("fork");
  exit(1);
}

int64_t random_work(const random_job *job, int64_t first, int64_t end, random_counts *counts,
                    random_failure *failure) {
  desk *d = make_desk();
  d->counts = *counts;
  pid_t child = begin_child();
  if (child == 0) {
    check_range(d, job, first, end);
    random_close_devices();
    exit(0); /* where leaks are looked for */
  }
  wait_for(d, child);
  *counts = d->counts;
  finish(d, failure);
  return failure->text[0] ? failure->index + 1 : end;
}

void random_work_on(const random_job *job, const random_recipe *recipe,
                    const random_choice *choices, unsigned mask, random_failure *failure) {
  desk *d = make_desk();
  pid_t child = begin_child();
  if (child == 0) {
    alarm(SECONDS);
    if (!freopen("/dev/null", "w", stderr)) exit(1);
    random_check(&d->verdict, &d->counts, recipe, choices, mask, job->opencl, &d->choice);
    _exit(0);
  }
  wait_for(d, child);
  finish(d, failure);
}
