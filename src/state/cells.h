/* State files within the library. */
#ifndef AC_STATE_CELLS_H
#define AC_STATE_CELLS_H

#include "window/trainer.h"

/* Whether a state of this trainer holds the cell. With a window in progress it also holds its sums.
 */
bool ac_state_holds(const ac_trainer *trainer, const ac_cell *cell, bool window);
/* Whether training leaves a parameter's cell as it is. */
bool ac_state_is_constant(const ac_trainer *trainer, const ac_cell *cell);
/* Refuses a state of a run that had other parameters frozen. */
ac_status ac_state_check_frozen(const ac_trainer *trainer, const ac_model_file *file,
                                const char *path);
typedef struct ac_state_tensor {
  const ac_cell *cell;
  char *name;
} ac_state_tensor;

/* What a state holds of a trainer, in the order of the plan's cells. */
typedef struct ac_state_contents {
  ac_trainer *trainer;
  ac_state_tensor *tensors;
  int count;
} ac_state_contents;

/* `window`: with the sums of the window in progress. Free it if this succeeds. */
ac_status ac_state_list(ac_state_contents *c, ac_trainer *trainer, bool window, const char *path);
void ac_state_contents_free(ac_state_contents *c);
/* Each tensor of the trainer is in the file, and each of the file is one of the trainer's. */
ac_status ac_state_check_tensors(const ac_state_contents *c, const ac_model_file *file,
                                 const char *path);

/* ---- what the host counts, as metadata: text.c ----------------------------------------------- */

/* Free the list and its text. `count` is that of what is in the list already, and of all. */
typedef struct ac_state_texts {
  ac_metadata *list;
  int count;
  char *text;
} ac_state_texts;
ac_status ac_state_put_run(ac_state_texts *texts, const ac_run *run, const ac_metadata *metadata,
                           int metadata_count);

/* The format's key that all states have. */
ac_status ac_state_check_file(const ac_model_file *file, const char *path);
/* Reads the records that only a run of the same parameters can read, or all others. */
ac_status ac_state_get_run(const ac_model_file *file, ac_run *run, bool of_model);

#endif
