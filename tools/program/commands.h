/* The subcommands but `bench` and `report`, which have rooms of their own. argv[0] is the first
 * argument after the command's name; the result is the exit status. */
#ifndef TOOLS_PROGRAM_COMMANDS_H
#define TOOLS_PROGRAM_COMMANDS_H

int eval_main(int argc, char **argv);
int export_main(int argc, char **argv);
int predict_main(int argc, char **argv);
int completion_main(int argc, char **argv);
int devices_main(int argc, char **argv);
int train_main(int argc, char **argv);
int plan_main(int argc, char **argv);
int pilot_main(int argc, char **argv);
int lr_find_main(int argc, char **argv);
int verify_main(int argc, char **argv);
int sample_main(int argc, char **argv);
int init_main(int argc, char **argv);
int tokenize_main(int argc, char **argv);
int show_main(int argc, char **argv);

#endif
