/** @file
 * Groups of parameters with rates, weight decay and clipping of their own: ac_trainer_desc.groups.
 */
#ifndef ACCRUE_PARAMETER_GROUP_H
#define ACCRUE_PARAMETER_GROUP_H

#include <accrue/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Most groups of parameters. */
#define AC_MAX_GROUPS 8

/* ---- may still change ------------------------------------------------------------------------ */

/** Settings of a group. 0 means the default. To switch something off, give a negative value. */
typedef struct AC_UNSTABLE(ac_group_settings) {
  double rate; /**< Part of the schedule's rate. Default 1; negative: parameters stay fixed. */
  /** Weight decay of all parameters of the group, including vectors and those with
   * ac_parameter_desc.no_weight_decay. Default: the optimizer's, for matrices only. */
  double weight_decay;
  /** Largest norm of the gradients of the group's parameters together. They then do not count in
   * the norm that clips the others. Negative: they are not clipped. Default: clipped with the
   * others, by the optimizer's `clip`. With AC_GRADIENTS_FUSED_LOCAL it is the largest norm of each
   * parameter's gradient, and with another ac_optimizer_desc.clipping what that says. */
  double clip;
} AC_UNSTABLE(ac_group_settings);

/** A group of parameters. If several groups match a parameter, it belongs to the first. */
typedef struct AC_UNSTABLE(ac_parameter_group) {
  const char *patterns; /**< Shell patterns for names, with commas between. One of them matches. */
  AC_UNSTABLE(ac_group_settings) settings; /**< Its settings. */
} AC_UNSTABLE(ac_parameter_group);

#ifndef AC_STABLE_ONLY

/** Whether a name matches one of a group's patterns. */
AC_API bool ac_parameter_group_matches(const ac_parameter_group *group, const char *name);

#endif /* AC_STABLE_ONLY */

#ifdef __cplusplus
}
#endif
#endif
