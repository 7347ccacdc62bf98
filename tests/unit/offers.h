/* What ac_plan_offers offers, for tests. */
#ifndef TESTS_UNIT_OFFERS_H
#define TESTS_UNIT_OFFERS_H

#include "check.h"

#include <accrue/accrue.h>

/* The one with these reliefs and no others; `bytes` is 0 where there is none. */
static inline ac_plan_offer test_offer(const ac_graph *graph, ac_device *device, ac_plan_desc desc,
                                       unsigned reliefs) {
  ac_plan_offer list[16];
  int count;
  assert_ok(ac_plan_offers(graph, device, &desc, list, 16, &count));
  assert_true(count <= 16);
  for (int i = 0; i < count; i++)
    if (list[i].reliefs == reliefs) return list[i];
  return (ac_plan_offer){.bytes = 0};
}

#endif
