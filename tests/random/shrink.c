/* Makes a failure small: removes steps as long as the graph still fails under the choice, then
 * samples, then what the choice has in addition to the plainest one. */
#include "worker.h"

typedef struct shrinking {
  const random_job *job;
  random_recipe recipe;
  random_choice choices[RANDOM_CHOICES];
  int choice;
  char text[1024]; /* of the smallest so far */
} shrinking;

static bool still_fails(shrinking *s, const random_recipe *recipe, const random_choice *choice) {
  random_choice choices[RANDOM_CHOICES];
  random_failure failure;
  for (int k = 0; k < RANDOM_CHOICES; k++) choices[k] = *choice;
  random_work_on(s->job, recipe, choices, 1u << s->choice, &failure);
  if (!failure.text[0]) return false;
  s->recipe = *recipe;
  s->choices[s->choice] = *choice;
  snprintf(s->text, sizeof s->text, "%s", failure.text);
  return true;
}

static void drop_steps(shrinking *s) {
  for (int i = s->recipe.step_count - 1; i >= 0; i--) {
    random_recipe smaller = s->recipe;
    smaller.step_count--;
    for (int k = i; k < smaller.step_count; k++) smaller.steps[k] = smaller.steps[k + 1];
    still_fails(s, &smaller, &s->choices[s->choice]);
  }
}

static void drop_samples(shrinking *s) {
  for (int64_t batch = 1; batch < s->recipe.batch; batch++) {
    random_recipe smaller = s->recipe;
    smaller.batch = batch;
    if (still_fails(s, &smaller, &s->choices[s->choice])) return;
  }
}

static void simplify_choice(shrinking *s) {
  for (int k = 0; k < RANDOM_DIMENSION_COUNT; k++) {
    random_choice simpler = s->choices[s->choice];
    if (!simpler.level[k]) continue;
    simpler.level[k] = 0;
    still_fails(s, &s->recipe, &simpler);
  }
}

void random_shrink(const random_job *job, const random_failure *failure) {
  shrinking s = {.job = job, .choice = failure->choice};
  random_choice original[RANDOM_CHOICES];
  s.recipe = random_draw(job->seed, failure->index, job->wanted);
  random_choose(original, job->seed, failure->index, job->opencl);
  s.choices[s.choice] = original[s.choice];
  if (!still_fails(&s, &s.recipe, &original[s.choice])) {
    printf("alone it does not fail; the graph and the choice were\n");
  } else {
    for (int before = 0; before != s.recipe.step_count;) {
      before = s.recipe.step_count;
      drop_steps(&s);
    }
    drop_samples(&s);
    simplify_choice(&s);
    printf("smallest: %s\n", s.text);
  }
  random_graph g;
  bool hints = s.choices[s.choice].level[RANDOM_recompute] == RECOMPUTE_HINTS;
  if (random_build(&g, &s.recipe, hints)) random_print(stdout, &g);
  random_free(&g);
  random_print_choice(stdout, &s.choices[s.choice], job->opencl);
}
