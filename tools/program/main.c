/* accrue: trains neural networks inside a memory budget. This file knows the subcommands and
 * nothing else. */
#include "bench/bench.h"
#include "program/commands.h"
#include "common/command_record.h"
#include "common/flag_record.h"
#include "common/help.h"
#include "common/message.h"
#include "common/option_help.h"
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

/* What a launcher such as mpirun makes of a command. */
typedef enum launched {
  REFUSED, /* each process would do the whole */
  SHARED,  /* its ranks share out the work */
  EACH     /* each process speaks of its own machine */
} launched;

static const struct {
  const char *name; /* docs/commands has a file of this name */
  int (*run)(int argc, char **argv);
  const char *second; /* what its second word names; NULL: it has none */
  launched launched;
} commands[] = {
    {"devices", devices_main, NULL, EACH},
    {"train", train_main, "model", SHARED},
    {"eval", eval_main, "model", REFUSED},
    {"predict", predict_main, "model", REFUSED},
    {"plan", plan_main, "model", SHARED},
    {"lr-find", lr_find_main, "model", REFUSED},
    {"pilot", pilot_main, "model", REFUSED},
    {"verify", verify_main, "model", REFUSED},
    {"bench", bench_main, "measurement", REFUSED},
    {"report", report_main, NULL, REFUSED},
    {"sample", sample_main, NULL, REFUSED},
    {"export", export_main, NULL, REFUSED},
    {"init", init_main, NULL, REFUSED},
    {"tokenize", tokenize_main, NULL, REFUSED},
    {"show", show_main, NULL, REFUSED},
    {"completion", completion_main, NULL, REFUSED},
};

enum { COMMANDS = sizeof commands / sizeof *commands };

static int put_help(help_form form) {
  help h = help_begin(form, "", "COMMAND [flags]",
                      "Trains neural networks inside a memory budget, on a CPU or any OpenCL "
                      "device.");
  help_commands(&h, "COMMANDS");
  for (int i = 0; i < COMMANDS; i++) {
    const command_record *r = command_record_find(commands[i].name);
    help_put_command(&h, commands[i].name, r ? r->brief : "");
  }
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

static bool is_known(const char *name) {
  for (int i = 0; i < COMMANDS; i++)
    if (!strcmp(name, commands[i].name)) return true;
  return false;
}

/* Whether a word is of a command's name, as the model or what a bench measures. */
static bool is_second_word(const char *command, const char *word) {
  char whole[64];
  snprintf(whole, sizeof whole, "%s-%s", command, word);
  for (int i = 0; i < flag_record_count; i++)
    if (flag_words_have(flag_records[i].models, word, strlen(word)) ||
        flag_words_have(flag_records[i].commands, whole, strlen(whole)))
      return true;
  return false;
}

/* `accrue help train gpt lr` is `accrue train gpt --help lr`, and `accrue help lr` tells of the
 * flag wherever it is. */
static int help_main(int argc, char **argv) {
  static char asked[] = "--help";
  if (argc < 3 || !strcmp(argv[2], "all")) return put_help(HELP_TEXT);
  if (!is_known(argv[2]))
    return option_help_of(argv[2], NULL) ? STATUS_DONE
           : strncmp(argv[2], "--", 2)
               ? dispatch(argc - 1, argv + 1)
               : fail_usage("unknown flag %s; accrue help lists the commands", argv[2]);
  const int words = argc > 3 && is_second_word(argv[2], argv[3]) ? 3 : 2;
  for (int i = 1; i < words; i++) argv[i] = argv[i + 1];
  argv[words] = asked;
  return dispatch(argc, argv);
}

/* Rank 0 says it. The others wait until the launcher has seen that and ends them: one that ended
 * first would have it end rank 0. */
static int refuse_launcher(const char *name, int ranks, int rank) {
  enum { WAIT_SECONDS = 2 };
  if (rank) sleep(WAIT_SECONDS);
  message_silence(rank != 0);
  return fail_usage("accrue %s cannot be shared out, and each of the %d processes of this launcher "
                    "would do the whole: start it without mpirun or srun",
                    name, ranks);
}

static bool asks_for_help(int argc, char **argv) {
  for (int i = 0; i < argc; i++)
    if (help_asked(argv[i])) return true;
  return false;
}

/* `accrue plan --help WORD`, without a model: WORD is one, or tells of the flags with any model. */
static int run_command(int command, int argc, char **argv) {
  const char *name = commands[command].name, *second = commands[command].second;
  char *topic = argc > 1 ? argv[1] : NULL;
  int rank;
  const int ranks = ac_ranks_launched(&rank);
  if (ranks > 1 && commands[command].launched == REFUSED && !asks_for_help(argc, argv))
    return refuse_launcher(name, ranks, rank);
  if (!second || argc < 1 || help_asked(argv[0]) != HELP_TEXT)
    return commands[command].run(argc, argv);
  if (strchr(argv[0], '=')) topic = strchr(argv[0], '=') + 1;
  if (!topic || !*topic || !strcmp(topic, "all")) return commands[command].run(argc, argv);
  if (is_second_word(name, topic)) {
    static char asked[] = "--help";
    return commands[command].run(2, (char *[]){topic, asked, NULL});
  }
  if (option_help_of(topic, name)) return STATUS_DONE;
  return fail_usage("--help %s: there is no such %s, group or flag; accrue %s --help lists the %ss",
                    topic, second, name, second);
}

static int dispatch(int argc, char **argv) {
  if (argc < 2) return fail_usage("a command is missing; accrue --help lists them");
  const char *name = argv[1];
  if (!strncmp(name, "--help=", 7) && help_asked(name) != HELP_MAN)
    return fail_usage("--help=%s is unknown: use --help, or --help=man for a page of the manual",
                      name + 7);
  if (help_asked(name) && argc > 2) return help_main(argc, argv);
  if (help_asked(name)) return put_help(help_asked(name));
  if (!strcmp(name, "help")) return help_main(argc, argv);
  if (!strcmp(name, "--version") || !strcmp(name, "version")) {
    printf("accrue %s\n", ac_version());
    return STATUS_DONE;
  }
  for (int i = 0; i < COMMANDS; i++)
    if (!strcmp(name, commands[i].name)) return run_command(i, argc - 2, argv + 2);
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
