/* The good state of a fit, to which it goes back where a window is a spike. */
#ifndef AC_FIT_GOOD_STATE_H
#define AC_FIT_GOOD_STATE_H

#include <accrue/fit.h>

/* Refuses a description that leaves no place for it. */
ac_status ac_good_state_check(const ac_trainer *trainer, const ac_fit_desc *desc);
/* Refuses a run that goes on, where its good state is not there. */
ac_status ac_good_state_find(const ac_trainer *trainer, const ac_fit_desc *desc);
/* Saves a good state if one is due after this update, or before the first. *failed: it could not
 * be written, and the one before stays. */
ac_status ac_good_state_keep(ac_trainer *trainer, const ac_fit_desc *desc, int64_t step,
                             bool *failed);
/* Whether training goes back after this update. */
bool ac_good_state_is_wanted(const ac_trainer *trainer, const ac_update *update);
/* Whether it has done so often enough, and training ends instead, with this sentence. */
bool ac_good_state_is_spent(const ac_trainer *trainer);
ac_status ac_good_state_give_up(const ac_trainer *trainer, int64_t step, const ac_update *update);
/* Loads the good state into the trainer after an update that was a spike. Its rate stays. */
ac_status ac_good_state_load(ac_trainer *trainer, const ac_fit_desc *desc, int64_t step);

#endif
