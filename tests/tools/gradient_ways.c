/* The program's table of --gradients: its rows say the same as the library's, and are in the order
 * of the flag's values. */
#include "support/check.h"

#include "common/flag_record.h"
#include "common/storage.h"
#include "plan/gradients.h"

/* What is left to the plan may be kept, so what needs kept gradients can ask for them. */
static void test_rows_are_the_librarys(void **state) {
  (void)state;
  for (int i = 0; i < AC_GRADIENT_WAYS; i++) {
    const ac_gradient_way *own = ac_gradient_way_of((ac_gradients)i);
    const gradient_way *way = gradient_way_of(i);
    assert_int_equal(own->gradients, i);
    assert_int_equal(way->passes, own->passes);
    assert_int_equal(way->may_keep, own->keeps || i == AC_GRADIENTS_AUTO);
    assert_int_equal(way->may_have_noise, own->has_noise || i == AC_GRADIENTS_AUTO);
    assert_int_equal(way->folds, own->folds);
    assert_int_equal(way->one_micro_batch, own->one_micro_batch);
    assert_int_equal(way->has_norm, own->has_norm);
    assert_int_equal(way->can_skip, own->can_skip);
    assert_int_equal(way->needs_weights, own->needs_weights);
  }
  assert_null(ac_gradient_way_of((ac_gradients)AC_GRADIENT_WAYS));
}

/* What the plan may choose can do what was promised before it chose. */
static void test_auto_promises_what_its_ways_have(void **state) {
  (void)state;
  const ac_gradient_way *any = ac_gradient_way_of(AC_GRADIENTS_AUTO);
  for (int i = 0; i < AC_GRADIENT_WAYS; i++) {
    const ac_gradient_way *way = ac_gradient_way_of((ac_gradients)i);
    if (!way->by_auto) continue;
    assert_true(way->passes >= 1 && way->passes <= AC_MOST_PASSES);
    assert_true(way->folds == any->folds && way->needs_weights == any->needs_weights);
    assert_true(way->has_norm >= any->has_norm && way->can_skip >= any->can_skip);
    assert_true(way->can_decide >= any->can_decide && way->can_discard >= any->can_discard);
    assert_true(way->moves_state >= any->moves_state);
  }
}

static void test_names_are_the_flags(void **state) {
  (void)state;
  const char *choices = flag_record_find("gradients", "train")->value;
  for (int i = 0, length; i < GRADIENTS_COUNT; i++) {
    const char *name = option_choice_name(choices, i, &length);
    assert_int_equal(strlen(gradient_way_of(i)->name), length);
    assert_memory_equal(gradient_way_of(i)->name, name, (size_t)length);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_rows_are_the_librarys),
      cmocka_unit_test(test_auto_promises_what_its_ways_have),
      cmocka_unit_test(test_names_are_the_flags),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
