/* Results in a trainer's memory: outputs of samples. Forward only, like an evaluation, and nothing
 * that a window needs is changed. */
#include "window/trainer.h"

#include "core/error.h"

#include <accrue/results.h>

ac_status ac_trainer_predict(ac_trainer *trainer, const char *name, int64_t count,
                             const ac_feed *feeds, int feed_count, int64_t elements, float *data) {
  AC_REQUIRE(trainer, name, data);
  if (feed_count > 0) AC_REQUIRE(feeds);
  ac_instance *instance = &trainer->instance;
  const ac_prediction wanted = {"trainer", name, count, elements, data};
  AC_TRY(ac_instance_check_usable(instance, "trainer"));
  AC_TRY(ac_trainer_check_arena(trainer));
  return ac_instance_predict(instance, &instance->prediction, instance->plan->predicted, &wanted,
                             feeds, feed_count);
}
