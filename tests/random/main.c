#include "random.h"
#include <stdlib.h>
#include <string.h>
int main(int argc, char **argv) {
  int64_t graphs = 200, first = 0;
  uint64_t seed = 1;
  bool opencl = false;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (!strcmp(argv[i], "--graphs")) graphs = atoll(argv[i + 1]);
    if (!strcmp(argv[i], "--first")) first = atoll(argv[i + 1]);
    if (!strcmp(argv[i], "--seed")) seed = strtoull(argv[i + 1], NULL, 0);
    if (!strcmp(argv[i], "--device")) opencl = !strcmp(argv[i + 1], "opencl");
  }
  random_counts counts = {0};
  int failed = 0;
  for (int64_t i = first; i < first + graphs; i++) {
    random_recipe recipe = random_draw(seed, i, NULL);
    random_choice choices[RANDOM_CHOICES];
    random_choose(choices, seed, i, opencl);
    random_verdict v;
    volatile int at = 0;
    random_check(&v, &counts, &recipe, choices, ~0u, opencl, &at);
    if (v.text[0]) {
      printf("graph %lld choice %d: %s\n   ", (long long)i, at, v.text);
      random_print_choice(stdout, &choices[at], opencl);
      failed++;
    }
  }
  printf("%d failed; graphs %lld, undrawable %lld, trials %lld, near ties %lld, twins %lld, "
         "recomputed %lld, uncovered %d\n",
         failed, (long long)counts.graphs, (long long)counts.undrawable, (long long)counts.trials,
         (long long)counts.near_ties, (long long)counts.twins, (long long)counts.recomputed,
         random_uncovered(seed, opencl));
  for (int k = 0; k < 3; k++) printf("worst %d: %g %s\n", k, counts.worst[k], counts.worst_text[k]);
  random_close_devices();
  return failed != 0;
}
