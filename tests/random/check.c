/* Tests one recipe under its choices: with values far from ties, trials are compared with the
 * reference, and with trials that must leave the same bits. */
#include "random.h"

#include <string.h>

enum { MOST_ATTEMPTS = 40 };

/* Values that are far from ties at every precision; else at the most precise ones. Sets the
 * precisions that are left. */
static bool settle(random_graph *g, bool possible[3]) {
  static const ac_dtype storages[] = {AC_F32, AC_F16, AC_BF16};
  for (int most = 3; most >= 1; most--)
    for (int attempt = 0; attempt < MOST_ATTEMPTS; attempt++) {
      bool far = true;
      random_fill(g, attempt);
      for (int k = 0; k < most && far; k++) far = random_is_far_from_ties(g, storages[k]);
      for (int k = 0; k < 3; k++) possible[k] = k < most;
      if (far) return true;
    }
  return false;
}

/* The same choice again, or with everything kept at the micro-batch that the plan took. */
static void check_twin(random_verdict *v, random_counts *counts, const random_graph *g,
                       const random_graph *hinted, const random_choice *choice,
                       const random_trial *first, bool opencl) {
  random_choice other = *choice;
  random_trial twin;
  bool keeps = choice->level[RANDOM_recompute] != RECOMPUTE_NONE;
  /* Hints decide what is fused, so both have them. */
  other.hinted = choice->level[RANDOM_recompute] == RECOMPUTE_HINTS;
  other.level[RANDOM_recompute] = RECOMPUTE_NONE;
  other.level[RANDOM_copies] = COPIES_KEPT;
  other.level[RANDOM_read_ahead] = AHEAD_NO;
  other.level[RANDOM_fit] = 0;
  other.micro_batch = first->micro_batch;
  random_try(&twin, g, hinted, &other, opencl);
  random_compare_bits(v,
                      keeps                ? "recomputation"
                      : first->rounds_anew ? "rounding weights anew"
                                           : "running it again",
                      g, first, &twin);
  random_trial_free(&twin);
  counts->twins++;
}

/* One choice of each graph is trained by 2 to 4 ranks as well. */
static int ranks_of(const random_graph *g, int k) {
  const uint64_t drawn = op_draw_hash(g->recipe.key, 29);
  return (int)(drawn % RANDOM_CHOICES) == k
             ? 2 + (int)(drawn / RANDOM_CHOICES % (RANDOM_MOST_RANKS - 1))
             : 1;
}

static void check_ranks(random_verdict *v, random_counts *counts, const random_graph *g,
                        const random_graph *hinted, const random_choice *choice, bool opencl,
                        int ranks) {
  random_trial t;
  random_verdict shared = {""};
  random_try_ranks(&t, g, hinted, choice, opencl, ranks);
  random_compare(&shared, counts, g, choice, &t);
  counts->shared[ranks]++;
  counts->divided += t.gradients == AC_GRADIENTS_SHARDED;
  random_trial_free(&t);
  if (shared.text[0]) snprintf(v->text, sizeof v->text, "%d ranks: %.960s", ranks, shared.text);
}

static void check_choice(random_verdict *v, random_counts *counts, const random_graph *g,
                         const random_graph *hinted, const random_choice *choice, int ranks,
                         bool opencl) {
  random_trial t;
  random_try(&t, g, hinted, choice, opencl);
  counts->trials++;
  counts->recomputed += t.recomputed > 0;
  counts->without_copies += t.rounds_anew && choice->level[RANDOM_copies] == COPIES_PLANNED;
  random_compare(v, counts, g, choice, &t);
  random_note(&counts->pairs, &t.took);
  if (!v->text[0]) check_twin(v, counts, g, hinted, choice, &t, opencl);
  if (!v->text[0] && ranks > 1 && random_can_share(g, &t))
    check_ranks(v, counts, g, hinted, choice, opencl, ranks);
  random_trial_free(&t);
}

void random_check(random_verdict *v, random_counts *counts, const random_recipe *recipe,
                  const random_choice *choices, unsigned mask, bool opencl, volatile int *at) {
  random_graph g, hinted;
  bool possible[3] = {false};
  v->text[0] = 0;
  bool built = random_build(&g, recipe, false) & random_build(&hinted, recipe, true);
  if (!built || !settle(&g, possible)) {
    counts->undrawable++;
    random_free(&hinted);
    random_free(&g);
    return;
  }
  counts->graphs++;
  random_check_reference(&g, v->text, sizeof v->text);
  for (int k = 0; k < RANDOM_CHOICES && !v->text[0]; k++) {
    if (!(mask >> k & 1)) continue;
    *at = k;
    if (!possible[choices[k].level[RANDOM_precision]]) counts->near_ties++;
    else check_choice(v, counts, &g, &hinted, &choices[k], ranks_of(&g, k), opencl);
  }
  random_free(&hinted);
  random_free(&g);
}
