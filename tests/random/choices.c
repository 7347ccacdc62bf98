/* Choices of how to train: a greedy covering of pairs. Each choice is the best of some that are
 * drawn, by how often its pairs of levels have come up in the block so far. */
#include "random.h"

#include <stdlib.h>
#include <string.h>

#define COUNT(name, ...) (int)(sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *)),
static const int level_counts[] = {RANDOM_DIMENSIONS(COUNT)};
#undef COUNT
#define TEXTS(name, ...) {#name, {__VA_ARGS__}},
static const struct {
  const char *name, *level[RANDOM_MOST_LEVELS];
} texts[] = {RANDOM_DIMENSIONS(TEXTS)};
#undef TEXTS

static int levels(int dimension, bool opencl) {
  bool of_cpu = dimension == RANDOM_isa || dimension == RANDOM_threads ||
                dimension == RANDOM_stream || dimension == RANDOM_products;
  return opencl && of_cpu ? 1 : level_counts[dimension];
}

static random_choice drawn(op_draw *d, bool opencl) {
  random_choice c = {.micro_batch = 0};
  for (int k = 0; k < RANDOM_DIMENSION_COUNT; k++) c.level[k] = op_draw_below(d, levels(k, opencl));
  return c;
}

/* New pairs count most, rare ones a little. */
static double gain(const random_pairs *p, const random_choice *c) {
  double sum = 0;
  for (int a = 0; a < RANDOM_DIMENSION_COUNT; a++)
    for (int b = 0; b < a; b++) sum += 1.0 / (1 + 20 * p->seen[a][c->level[a]][b][c->level[b]]);
  return sum;
}

void random_note(random_pairs *p, const random_choice *c) {
  for (int a = 0; a < RANDOM_DIMENSION_COUNT; a++)
    for (int b = 0; b < a; b++) p->seen[a][c->level[a]][b][c->level[b]]++;
}

/* Choices of the first `graphs` graphs of a block; those of the last are left in `choices`. */
static void run_block(random_pairs *p, random_choice *choices, uint64_t seed, int64_t block,
                      int graphs, bool opencl) {
  op_draw d = {.state = op_draw_hash(seed + 17, (uint64_t)block)};
  memset(p, 0, sizeof *p);
  for (int i = 0; i < graphs * RANDOM_CHOICES; i++) {
    random_choice best = drawn(&d, opencl);
    for (int k = 0; k < 8; k++) {
      random_choice c = drawn(&d, opencl);
      if (gain(p, &c) > gain(p, &best)) best = c;
    }
    random_note(p, &best);
    choices[i % RANDOM_CHOICES] = best;
  }
}

void random_choose(random_choice choices[RANDOM_CHOICES], uint64_t seed, int64_t index,
                   bool opencl) {
  random_pairs *p = malloc(sizeof *p);
  run_block(p, choices, seed, index / RANDOM_BLOCK, (int)(index % RANDOM_BLOCK) + 1, opencl);
  free(p);
}

int random_print_uncovered(FILE *to, const random_pairs *p, bool opencl) {
  int missing = 0;
  for (int a = 0; a < RANDOM_DIMENSION_COUNT; a++)
    for (int b = 0; b < a; b++)
      for (int i = 0; i < levels(a, opencl); i++)
        for (int j = 0; j < levels(b, opencl); j++) {
          if (p->seen[a][i][b][j]) continue;
          missing++;
          fprintf(to, "never met: %s %s and %s %s\n", texts[b].name, texts[b].level[j],
                  texts[a].name, texts[a].level[i]);
        }
  return missing;
}

void random_print_choice(FILE *to, const random_choice *choice, bool opencl) {
  fprintf(to, "device %s", opencl ? "opencl" : "cpu");
  for (int k = 0; k < RANDOM_DIMENSION_COUNT; k++)
    if (levels(k, opencl) > 1)
      fprintf(to, ", %s %s", texts[k].name, texts[k].level[choice->level[k]]);
  fprintf(to, "\n");
}

ac_dtype random_storage(const random_choice *choice) {
  static const ac_dtype storage[] = {AC_F32, AC_F16, AC_BF16};
  return storage[choice->level[RANDOM_precision]];
}
