/* `accrue train`: which ranks this process is, or has. train.c makes the run of each. */
#include "common/message.h"
#include "common/option_record.h"
#include "program/commands.h"
#include "program/follow.h"
#include "program/rank_devices.h"

#include <string.h>

/* Of `accrue plan`. */
static int refuse_ranks(const char *count) {
  const bool number = count && *count && !count[strspn(count, "0123456789")];
  return fail_usage("accrue train has no --ranks: a launcher starts its ranks, as in "
                    "mpirun -n %s accrue train",
                    number ? count : "N");
}

static bool prints_only(int argc, char **argv) {
  for (int i = 0; i < argc; i++)
    if (help_asked(argv[i])) return true;
  return options_named("print-config", argc, argv);
}

int train_main(int argc, char **argv) {
  train_wish wish = {0};
  train_summary summary = {0};
  const help_form help = setup_wants_help(argc, argv);
  if (help) return setup_help("train", help);
  rank_devices devices;
  int status = ranks_open(argc, argv, &wish.ranks);
  if (status != STATUS_CONTINUE) return status;
  status = rank_devices_find(&devices, argc, argv);
  if (status == STATUS_CONTINUE && options_named("ranks", argc, argv))
    status = refuse_ranks(options_value("ranks", argc, argv));
  if (status == STATUS_CONTINUE && wish.ranks && devices.count > 1)
    wish.device = devices.names[ac_ranks_local_rank(wish.ranks) % devices.count];
  if (status == STATUS_CONTINUE)
    status = !wish.ranks && devices.count > 1 && !prints_only(argc, argv)
                 ? rank_devices_train(&devices, argc, argv, &summary)
                 : train_run(argc, argv, &wish, &summary);
  status = ranks_close(wish.ranks, status);
  return status == STATUS_DONE && summary.signal ? 128 + summary.signal : status;
}
