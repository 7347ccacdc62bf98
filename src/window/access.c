/* What a caller may read and change between windows: parameters, groups, model files; and
 * evaluation in the trainer's memory. */
#include "window/trainer.h"

#include "core/error.h"
#include "core/share.h"

int ac_trainer_parameter_count(const ac_trainer *trainer) {
  return trainer ? trainer->instance.plan->graph->parameter_count : 0;
}

ac_status ac_trainer_parameter_info(const ac_trainer *trainer, int index, ac_tensor_info *info) {
  AC_REQUIRE(trainer, info);
  return ac_graph_parameter(trainer->instance.plan->graph, index, info);
}

int ac_trainer_find_parameter(const ac_trainer *trainer, const char *name) {
  return trainer && name ? ac_instance_find_parameter(&trainer->instance, name) : -1;
}

ac_status ac_trainer_get_parameter(ac_trainer *trainer, int index, int64_t first, int64_t count,
                                   float *data) {
  AC_REQUIRE(trainer);
  if (count > 0) AC_REQUIRE(data);
  AC_TRY(ac_instance_check_range(&trainer->instance, index, first, count));
  return ac_instance_read_parameter(&trainer->instance, index, first, count, data);
}

ac_status ac_trainer_set_parameter(ac_trainer *trainer, int index, int64_t first, int64_t count,
                                   const float *data) {
  AC_REQUIRE(trainer);
  if (count > 0) AC_REQUIRE(data);
  ac_instance *instance = &trainer->instance;
  AC_TRY(ac_trainer_check_writable(trainer));
  AC_TRY(ac_instance_check_range(instance, index, first, count));
  return ac_instance_write_parameter(instance, index, first, count, data);
}

ac_status ac_trainer_set_input(ac_trainer *trainer, const char *name, const void *data) {
  AC_REQUIRE(trainer, name, data);
  AC_TRY(ac_trainer_check_writable(trainer));
  return ac_instance_set_input(&trainer->instance, name, data, "trainer");
}

ac_status ac_trainer_set_group(ac_trainer *trainer, int group, const ac_group_settings *settings) {
  AC_REQUIRE(trainer, settings);
  AC_TRY(ac_trainer_check_deciding(trainer));
  const ac_groups before = trainer->run.groups;
  AC_TRY(ac_groups_set(&trainer->run.groups, group, settings));
  trainer->run.groups.changed = true;
  ac_status status = ac_folded_check_desc(trainer, trainer->instance.plan);
  if (status != AC_OK) trainer->run.groups = before;
  return status;
}

ac_status ac_trainer_get_group(const ac_trainer *trainer, int group, ac_group_settings *settings) {
  AC_REQUIRE(trainer, settings);
  if (group < 0 || group >= trainer->run.groups.count)
    return ac_fail(AC_ERROR_ARGUMENT, "trainer: group %d of %d", group, trainer->run.groups.count);
  *settings = trainer->run.groups.settings[group];
  return AC_OK;
}

/* Ranks that wait for this one see that it is at work. */
static ac_status save(ac_trainer *trainer, const char *path, const char *pattern,
                      const ac_metadata *metadata, int metadata_count) {
  AC_TRY(ac_instance_check_usable(&trainer->instance, "trainer"));
  ac_exchange_begin_absence(trainer);
  const ac_status status =
      ac_instance_save(&trainer->instance, path, pattern, metadata, metadata_count);
  ac_exchange_end_absence(trainer);
  return status;
}

ac_status ac_trainer_save(ac_trainer *trainer, const char *path, const ac_metadata *metadata,
                          int metadata_count) {
  AC_REQUIRE(trainer, path);
  if (metadata_count > 0) AC_REQUIRE(metadata);
  return save(trainer, path, NULL, metadata, metadata_count);
}

ac_status ac_trainer_save_part(ac_trainer *trainer, const char *path, const char *pattern,
                               const ac_metadata *metadata, int metadata_count) {
  AC_REQUIRE(trainer, path, pattern);
  if (metadata_count > 0) AC_REQUIRE(metadata);
  return save(trainer, path, pattern, metadata, metadata_count);
}

static ac_status load(ac_trainer *trainer, const char *path, const char *pattern,
                      const char *optional_prefix) {
  AC_TRY(ac_trainer_check_writable(trainer));
  return ac_instance_load(&trainer->instance, path, pattern, optional_prefix);
}

ac_status ac_trainer_load_from(ac_trainer *trainer, ac_model_file *file, const char *prefix,
                               bool (*takes)(void *user, const char *name), void *user) {
  AC_TRY(ac_trainer_check_writable(trainer));
  return ac_instance_load_from(&trainer->instance, file, prefix, takes, user);
}

ac_status ac_trainer_load(ac_trainer *trainer, const char *path, const char *optional_prefix) {
  AC_REQUIRE(trainer, path);
  return load(trainer, path, NULL, optional_prefix);
}

ac_status ac_trainer_load_part(ac_trainer *trainer, const char *path, const char *pattern,
                               const char *optional_prefix) {
  AC_REQUIRE(trainer, path, pattern);
  return load(trainer, path, pattern, optional_prefix);
}

/* Ranks share out the samples. */
static ac_status evaluate(ac_trainer *trainer, ac_dataset *dataset, int64_t limit, ac_stop *stop,
                          ac_evaluation *result) {
  ac_instance *instance = &trainer->instance;
  ac_exchange *e = &trainer->exchange;
  int64_t samples;
  ac_all_sums sums;
  AC_TRY(ac_instance_count_evaluated(dataset, limit, &samples));
  const int64_t begin = ac_share_begin(samples, e->rank, e->ranks),
                end = begin + ac_share_of(samples, e->rank, e->ranks);
  const ac_status status =
      ac_instance_sum_up(instance, &instance->evaluation, dataset, begin, end, stop, &sums);
  AC_TRY(ac_exchange_evaluation(trainer, status, &sums, &stop->stopped));
  if (!stop->stopped) *result = ac_instance_means(instance, &sums, samples);
  return AC_OK;
}

/* The loss sums of a window in progress share their memory with the evaluation's. */
ac_status ac_trainer_evaluate_asking(ac_trainer *trainer, ac_dataset *dataset, int64_t limit,
                                     ac_stop *stop, ac_evaluation *result) {
  ac_instance *instance = &trainer->instance;
  ac_kept_sums sums;
  AC_TRY(ac_instance_check_usable(instance, "trainer"));
  AC_TRY(ac_trainer_check_arena(trainer));
  AC_TRY(ac_instance_keep_sums(instance, &sums));
  const bool outer = trainer->busy.evaluating;
  trainer->busy.evaluating = true;
  ac_status status = evaluate(trainer, dataset, limit, stop, result);
  trainer->busy.evaluating = outer;
  ac_status restored = ac_instance_restore_sums(instance, &sums);
  if (restored != AC_OK) trainer->window.broken = true;
  return status != AC_OK ? status : restored;
}

ac_status ac_trainer_evaluate(ac_trainer *trainer, ac_dataset *dataset, int64_t limit,
                              ac_evaluation *result) {
  AC_REQUIRE(trainer, dataset, result);
  ac_stop never = {0};
  return ac_trainer_evaluate_asking(trainer, dataset, limit, &never, result);
}

ac_status ac_trainer_evaluate_until(ac_trainer *trainer, ac_dataset *dataset, int64_t limit,
                                    ac_stop_callback stop, void *user, ac_evaluation *result,
                                    bool *stopped) {
  AC_REQUIRE(trainer, dataset, result, stopped);
  ac_stop asked = {.ask = stop, .user = user};
  const ac_status status = ac_trainer_evaluate_asking(trainer, dataset, limit, &asked, result);
  *stopped = asked.stopped;
  return status;
}
