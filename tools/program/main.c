/* accrue: trains neural networks inside a memory budget. This file knows the subcommands and
 * nothing else. */
#include "bench/bench.h"
#include "program/commands.h"
#include "common/help.h"
#include "common/message.h"
#include "common/suggest.h"
#include "report/report.h"

#include <accrue/accrue.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct {
  const char *name, *summary;
  int (*run)(int argc, char **argv);
} commands[] = {
    {"devices", "list the devices a model can train on", devices_main},
    {"train", "train a model: gpt, mlp, resnet or mobilenet", train_main},
    {"eval", "say how well a saved model does", eval_main},
    {"predict", "tell the classes of images by a saved model", predict_main},
    {"plan", "say what training would take, before it takes it", plan_main},
    {"lr-find", "try learning rates, and say which one suits", lr_find_main},
    {"pilot", "compare settings by short runs: grids, seeds, folds, ablations", pilot_main},
    {"verify", "compare training as planned with training on whole batches", verify_main},
    {"bench", "measure devices: gemm, ops, step, all or memory", bench_main},
    {"report", "write a page about runs: curves, results, memory, settings", report_main},
    {"sample", "write text with a trained gpt", sample_main},
};

enum { COMMANDS = sizeof commands / sizeof *commands };

static int put_help(help_form form) {
  help h = help_begin(form, "", "COMMAND [flags]",
                      "Trains neural networks inside a memory budget, on a CPU or any OpenCL "
                      "device.");
  help_commands(&h, "COMMANDS");
  for (int i = 0; i < COMMANDS; i++) help_put_command(&h, commands[i].name, commands[i].summary);
  help_paragraph(&h, "accrue COMMAND --help lists a command's flags; --version tells the version.\n"
                     "With --help=man any help is a page of the manual.");
  help_exit_status(&h);
  help_end(&h);
  return STATUS_DONE;
}

static int unknown_command(const char *name) {
  const char *near = suggest_command(name);
  int least = near ? 0 : 3;
  for (int i = 0; i < COMMANDS; i++) {
    const int d = suggest_distance(name, strlen(name), commands[i].name);
    if (d < least) least = d, near = commands[i].name;
  }
  if (near) return fail_usage("unknown command %s; did you mean %s?", name, near);
  return fail_usage("unknown command %s; accrue --help lists them", name);
}

static int dispatch(int argc, char **argv);

/* `accrue help train gpt` is `accrue train gpt --help`. */
static int help_main(int argc, char **argv) {
  static char asked[] = "--help";
  if (argc < 3) return put_help(HELP_TEXT);
  for (int i = 1; i < argc - 1; i++) argv[i] = argv[i + 1];
  argv[argc - 1] = asked;
  return dispatch(argc, argv);
}

static int dispatch(int argc, char **argv) {
  if (argc < 2) return fail_usage("a command is missing; accrue --help lists them");
  const char *name = argv[1];
  if (help_asked(name)) return put_help(help_asked(name));
  if (!strcmp(name, "help")) return help_main(argc, argv);
  if (!strncmp(name, "--help=", 7))
    return fail_usage("--help=%s is unknown: use --help, or --help=man for a page of the manual",
                      name + 7);
  if (!strcmp(name, "--version") || !strcmp(name, "version")) {
    printf("accrue %s\n", ac_version());
    return STATUS_DONE;
  }
  for (int i = 0; i < COMMANDS; i++)
    if (!strcmp(name, commands[i].name)) return commands[i].run(argc - 2, argv + 2);
  return unknown_command(name);
}

/* Between parallel loops GNU's OpenMP lets threads spin for milliseconds. Where another program
 * wants one of the cores that makes every step tens of times slower; sleeping at once costs a few
 * microseconds a loop. The runtime reads its settings before main, so the program starts itself
 * again with a short spin, unless the user has chosen one. */
static void wait_briefly(char **argv) {
#ifdef __linux__
  if (getenv("OMP_WAIT_POLICY") || getenv("GOMP_SPINCOUNT")) return;
  setenv("GOMP_SPINCOUNT", "5000", 1);
  execv("/proc/self/exe", argv); /* goes on as it is where that fails */
#else
  (void)argv;
#endif
}

/* Where a standard stream is closed, the next file that is opened would take its place, and text
 * that is meant for a terminal would get into that file. */
static void open_standard_streams(void) {
  for (int descriptor = STDIN_FILENO; descriptor <= STDERR_FILENO; descriptor++)
    if (fcntl(descriptor, F_GETFD) < 0 && errno == EBADF) open("/dev/null", O_RDWR);
}

int main(int argc, char **argv) {
  open_standard_streams();
  wait_briefly(argv);
#ifdef SIGXFSZ
  /* A file that reaches the size limit is an error of the write, to be reported like a full disk.
   */
  signal(SIGXFSZ, SIG_IGN);
#endif
  int status = dispatch(argc, argv);
  if ((fflush(stdout) != 0 || ferror(stdout)) && status == STATUS_DONE)
    return fail("cannot write to the standard output: %s", strerror(errno));
  return status;
}
