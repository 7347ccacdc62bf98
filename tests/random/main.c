/* test_random [--graphs N] [--seed S] [--first I] [--device cpu|opencl] [--families a,b]
 *             [--keep-going]
 *
 * N graphs from the I-th on, each under its choices. Graphs are worked on in a process of their
 * own, so that one that crashes or hangs is reported as one that fails; this process never runs
 * any. */
#include "worker.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { SHARE = 100, MOST_SHRUNK = 5 };

typedef struct arguments {
  int64_t graphs, first;
  random_job job;
  bool families[RANDOM_FAMILIES], keep_going;
} arguments;

static bool read_families(arguments *a, char *list) {
  for (char *name = strtok(list, ","); name; name = strtok(NULL, ",")) {
    int f = 0;
    while (f < random_family_count() && strcmp(name, random_family_name(f)) != 0) f++;
    if (f == random_family_count()) return false;
    a->families[f] = true;
    a->job.wanted = a->families;
  }
  return true;
}

static bool read_arguments(arguments *a, int argc, char **argv) {
  *a = (arguments){.graphs = 200, .job = {.seed = 1}};
  for (int i = 1; i < argc; i++) {
    char *value = i + 1 < argc ? argv[i + 1] : NULL;
    if (!strcmp(argv[i], "--keep-going")) {
      a->keep_going = true;
      continue;
    }
    if (!value) return false;
    if (!strcmp(argv[i], "--graphs")) a->graphs = strtoll(value, NULL, 10);
    else if (!strcmp(argv[i], "--first")) a->first = strtoll(value, NULL, 10);
    else if (!strcmp(argv[i], "--seed")) a->job.seed = strtoull(value, NULL, 0);
    else if (!strcmp(argv[i], "--device") && !strcmp(value, "opencl")) a->job.opencl = true;
    else if (!strcmp(argv[i], "--device") && !strcmp(value, "cpu")) a->job.opencl = false;
    else if (strcmp(argv[i], "--families") != 0 || !read_families(a, value)) return false;
    i++;
  }
  return a->graphs > 0 && a->first >= 0;
}

static void report(const random_job *job, const random_failure *failure, bool shrink) {
  printf("\ngraph %" PRId64 " of seed %" PRIu64 ", choice %d: %s\n", failure->index, job->seed,
         failure->choice, failure->text);
  if (shrink) random_shrink(job, failure);
  printf("again: test_random --seed %" PRIu64 " --first %" PRId64 " --graphs 1%s", job->seed,
         failure->index, job->opencl ? " --device opencl" : "");
  const char *before = " --families ";
  for (int f = 0; job->wanted && f < random_family_count(); f++) {
    if (!job->wanted[f]) continue;
    printf("%s%s", before, random_family_name(f));
    before = ",";
  }
  printf("\n");
  fflush(stdout);
}

static int summarise(const arguments *a, const random_counts *c, int64_t failed) {
  printf("%" PRId64 " graphs, %" PRId64 " trials; %" PRId64 " recomputed and %" PRId64
         " gave up working copies for a budget, %" PRId64
         " held against another's bits; left out: %" PRId64
         " graphs with nothing to train, %" PRId64 " windows near ties; %" PRId64 " second looks\n",
         c->graphs, c->trials, c->recomputed, c->without_copies, c->twins, c->undrawable,
         c->near_ties, c->second_looks);
  printf("trained by ranks as well: %" PRId64 " by 2, %" PRId64 " by 3, %" PRId64 " by 4; %" PRId64
         " with gradients divided\n",
         c->shared[2], c->shared[3], c->shared[4], c->divided);
  for (int k = 0; k < 3; k++)
    printf("%-4s errors reached %.2f of what is allowed (%s)\n", ac_precision_name((ac_precision)k),
           c->worst[k], c->worst_text[k]);
  bool whole = a->graphs >= RANDOM_BLOCK && !failed;
  int uncovered = whole ? random_print_uncovered(stdout, &c->pairs, a->job.opencl) : 0;
  if (whole && !c->without_copies) {
    uncovered++;
    printf("never met: a plan that gives up working copies for a budget\n");
  }
  for (int ranks = 2; whole && ranks <= RANDOM_MOST_RANKS; ranks++) {
    uncovered += !c->shared[ranks];
    if (!c->shared[ranks]) printf("never met: %d ranks\n", ranks);
  }
  if (whole && !c->divided) {
    uncovered++;
    printf("never met: ranks that divide gradients\n");
  }
  if (failed) printf("%" PRId64 " graphs failed\n", failed);
  /* A generator that draws too little proves too little. */
  bool poor = c->graphs * 10 < a->graphs * 8 || c->near_ties * 5 > c->trials + 5;
  if (!failed && poor) printf("too much was left out\n");
  return failed || uncovered || poor;
}

int main(int argc, char **argv) {
  arguments a;
  if (!read_arguments(&a, argc, argv)) {
    fprintf(stderr, "usage: test_random [--graphs N] [--seed S] [--first I] "
                    "[--device cpu|opencl] [--families A,B] [--keep-going]\n");
    return 2;
  }
  random_counts counts = {0};
  int64_t failed = 0, end = a.first + a.graphs;
  for (int64_t at = a.first; at < end && (a.keep_going || failed == 0);) {
    random_failure failure;
    int64_t share = end - at < SHARE ? end - at : SHARE;
    at = random_work(&a.job, at, at + share, &counts, &failure);
    if (!failure.text[0]) continue;
    report(&a.job, &failure, failed++ < MOST_SHRUNK);
  }
  return summarise(&a, &counts, failed);
}
