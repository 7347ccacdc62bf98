/* `accrue completion`: scripts by which bash and zsh complete commands, models, flags and their
 * values. What is completed comes from the files of docs/flags and docs/commands. */
#include "program/commands.h"
#include "common/command_record.h"
#include "common/help.h"
#include "common/message.h"
#include "models/presets.h"
#include "program/model_kind.h"

#include <stdio.h>
#include <string.h>

/* Both scripts have the flags as lines of a table: NAME;COMMANDS;MODELS;VALUES;MEANING. VALUES is -
 * for a switch, @file or @dir for a path, the choices, or nothing. What is typed after a command's
 * name is a model, or what a bench measures. */

static const char bash_head[] =
    "# bash completion for accrue, as `accrue completion bash` writes it\n"
    "_accrue_flags='";

static const char bash_tail[] =
    "_accrue() {\n"
    "  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}\n"
    "  local command=${COMP_WORDS[1]} model= name commands models values flags= of_prev=none\n"
    "  COMPREPLY=()\n"
    "  if [[ $cur == = ]]; then cur=; elif [[ $prev == = ]]; then prev=${COMP_WORDS[COMP_CWORD - "
    "2]}; fi\n"
    "  if ((COMP_CWORD == 1)); then\n"
    "    COMPREPLY=($(compgen -W \"$_accrue_commands help --help --version\" -- \"$cur\"))\n"
    "    return\n"
    "  fi\n"
    "  if ((COMP_CWORD > 2)) && [[ ${COMP_WORDS[2]} != -* ]]; then model=${COMP_WORDS[2]}; fi\n"
    "  if [[ $command == bench ]]; then command=bench-$model model=; fi\n"
    "  while IFS=';' read -r name commands models values; do\n"
    "    [[ \" $commands \" == *\" $command \"* ]] || continue\n"
    "    [[ ! $models || ! $model || \" $models \" == *\" $model \"* ]] || continue\n"
    "    flags+=\" --$name\"\n"
    "    if [[ $prev == \"--$name\" ]]; then of_prev=$values; fi\n"
    "  done <<<\"$_accrue_flags\"\n"
    "  if [[ $prev == --help ]]; then\n"
    "    COMPREPLY=($(compgen -W \"all man $_accrue_groups $flags\" -- \"$cur\"))\n"
    "    return\n"
    "  fi\n"
    "  case $of_prev in\n"
    "  none | -) ;;\n"
    "  @file)\n"
    "    compopt -o filenames 2>/dev/null\n"
    "    mapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n"
    "    return\n"
    "    ;;\n"
    "  @dir)\n"
    "    compopt -o filenames 2>/dev/null\n"
    "    mapfile -t COMPREPLY < <(compgen -d -- \"$cur\")\n"
    "    return\n"
    "    ;;\n"
    "  *)\n"
    "    COMPREPLY=($(compgen -W \"$of_prev\" -- \"$cur\"))\n"
    "    return\n"
    "    ;;\n"
    "  esac\n"
    "  if ((COMP_CWORD == 2)) && [[ $cur != -* ]]; then\n"
    "    case $command in\n"
    "    bench-) COMPREPLY=($(compgen -W \"$_accrue_benches\" -- \"$cur\")) ;;\n"
    "    predict) COMPREPLY=($(compgen -W \"$_accrue_image_models\" -- \"$cur\")) ;;\n"
    "    train | eval | plan | lr-find | pilot | verify)\n"
    "      COMPREPLY=($(compgen -W \"$_accrue_models\" -- \"$cur\"))\n"
    "      ;;\n"
    "    completion) COMPREPLY=($(compgen -W 'bash zsh' -- \"$cur\")) ;;\n"
    "    help) COMPREPLY=($(compgen -W \"$_accrue_commands\" -- \"$cur\")) ;;\n"
    "    esac\n"
    "  fi\n"
    "  if [[ $command == report && $cur != -* ]]; then\n"
    "    compopt -o filenames 2>/dev/null\n"
    "    mapfile -t COMPREPLY < <(compgen -d -- \"$cur\")\n"
    "  fi\n"
    "  if ((!${#COMPREPLY[@]})); then COMPREPLY=($(compgen -W \"$flags --help\" -- \"$cur\")); fi\n"
    "}\n"
    "complete -F _accrue accrue\n";

static const char zsh_head[] = "#compdef accrue\n"
                               "# zsh completion for accrue, as `accrue completion zsh` writes it\n"
                               "_accrue() {\n"
                               "  local accrue_flags='";

static const char zsh_tail[] =
    "  local command=$words[2] model= name commands models values meaning of_prev=none\n"
    "  local prev=$words[CURRENT-1]\n"
    "  local -a flags\n"
    "  if ((CURRENT == 2)); then\n"
    "    _describe command accrue_commands\n"
    "    return\n"
    "  fi\n"
    "  if ((CURRENT > 3)) && [[ $words[3] != -* ]]; then model=$words[3]; fi\n"
    "  if [[ $command == bench ]]; then command=bench-$model model=; fi\n"
    "  if compset -P '--[a-z0-9-]##='; then prev=${IPREFIX%=}; fi\n"
    "  while IFS=';' read -r name commands models values meaning; do\n"
    "    [[ \" $commands \" == *\" $command \"* ]] || continue\n"
    "    [[ -z $models || -z $model || \" $models \" == *\" $model \"* ]] || continue\n"
    "    flags+=(\"--$name:$meaning\")\n"
    "    if [[ $prev == \"--$name\" ]]; then of_prev=$values; fi\n"
    "  done <<<$accrue_flags\n"
    "  flags+=('--help:say what the flags are')\n"
    "  if [[ $prev == --help ]]; then\n"
    "    compadd -- all man ${=accrue_groups} ${flags%%:*}\n"
    "    return\n"
    "  fi\n"
    "  case $of_prev in\n"
    "  none | -) ;;\n"
    "  @file) _files && return ;;\n"
    "  @dir) _files -/ && return ;;\n"
    "  '') return 1 ;;\n"
    "  *) compadd -- ${=of_prev} && return ;;\n"
    "  esac\n"
    "  if ((CURRENT == 3)) && [[ $PREFIX != -* ]]; then\n"
    "    case $command in\n"
    "    bench-) compadd -- ${=accrue_benches} && return ;;\n"
    "    predict) compadd -- ${=accrue_image_models} && return ;;\n"
    "    train | eval | plan | lr-find | pilot | verify) compadd -- ${=accrue_models} && return "
    ";;\n"
    "    completion) compadd -- bash zsh && return ;;\n"
    "    esac\n"
    "  fi\n"
    "  if [[ $command == report && $PREFIX != -* ]]; then _files -/ && return; fi\n"
    "  _describe flag flags\n"
    "}\n"
    "_accrue \"$@\"\n";

/* ---- what is known --------------------------------------------------------------------------- */

/* Within single quotes of a shell. */
static void put_quoted(const char *text) {
  for (; *text; text++) {
    if (*text == '\'') fputs("'\\''", stdout);
    else putchar(*text);
  }
}

/* "auto|none|X" as words, without the X: only what can be typed. */
static void put_values(const flag_record *r) {
  if (!r->value) {
    putchar('-');
    return;
  }
  if (!strcmp(r->value, "FILE") || !strcmp(r->value, "PATH")) fputs("@file", stdout);
  else if (!strcmp(r->value, "DIR")) fputs("@dir", stdout);
  if (!strchr(r->value, '|')) return;
  const char *before = "";
  for (const char *at = r->value; *at; at += strspn(at, "|")) {
    const size_t length = strcspn(at, "|");
    if (at[0] < 'A' || at[0] > 'Z') {
      printf("%s%.*s", before, (int)length, at);
      before = " ";
    }
    at += length;
  }
}

static void put_preset_names(const char *kind) {
  const char *before = "";
  for (int i = 0; i < model_preset_count; i++) {
    if (strcmp(model_presets[i].kind, kind) != 0) continue;
    printf("%s%s", before, model_presets[i].name);
    before = " ";
  }
}

/* `kind`: the model whose presets are the values; NULL: the flag's own. */
static void put_flag(const flag_record *r, const char *kind, bool meanings) {
  printf("%s;%s;%s;", r->name, r->commands, kind ? kind : r->models ? r->models : "");
  if (kind) put_preset_names(kind);
  else put_values(r);
  if (meanings) {
    putchar(';');
    put_quoted(r->brief);
  }
  putchar('\n');
}

static void put_flags(bool meanings) {
  for (int i = 0; i < flag_record_count; i++) {
    const flag_record *r = &flag_records[i];
    if (strcmp(r->name, "preset") != 0) put_flag(r, NULL, meanings);
    else
      for (int k = 0; model_kinds[k]; k++) put_flag(r, model_kinds[k]->name, meanings);
  }
}

static void put_models(const char *variable, bool images) {
  const char *before = "";
  printf("%s='", variable);
  for (int i = 0; model_kinds[i]; i++) {
    if (images && !model_kinds[i]->classes) continue;
    printf("%s%s", before, model_kinds[i]->name);
    before = " ";
  }
  fputs("'\n", stdout);
}

static void put_groups(const char *variable) {
  printf("%s='", variable);
  for (int i = 0; i < flag_group_count; i++) printf("%s%s", i ? " " : "", flag_groups[i].name);
  fputs("'\n", stdout);
}

/* The words after "bench", each once. */
static void put_benches(const char *variable) {
  const char *before = "", *word;
  char all[256] = "";
  printf("%s='", variable);
  for (int i = 0; i < flag_record_count; i++) {
    const char *list = flag_records[i].commands;
    for (size_t length; (length = flag_words_next(&list, &word));) {
      if (strncmp(word, "bench-", 6) != 0 || flag_words_have(all, word, length)) continue;
      const size_t used = strlen(all);
      snprintf(all + used, sizeof all - used, "%.*s ", (int)length, word);
      printf("%s%.*s", before, (int)length - 6, word + 6);
      before = " ";
    }
  }
  fputs("'\n", stdout);
}

static bool is_command(const command_record *r) {
  return strcmp(r->name, "accrue") != 0;
}

/* ---- scripts --------------------------------------------------------------------------------- */

static void put_bash(void) {
  const char *before = "";
  fputs(bash_head, stdout);
  put_flags(false);
  fputs("'\n_accrue_commands='", stdout);
  for (int i = 0; i < command_record_count; i++) {
    if (!is_command(&command_records[i])) continue;
    printf("%s%s", before, command_records[i].name);
    before = " ";
  }
  fputs("'\n", stdout);
  put_models("_accrue_models", false);
  put_models("_accrue_image_models", true);
  put_benches("_accrue_benches");
  put_groups("_accrue_groups");
  fputs(bash_tail, stdout);
}

static void put_zsh(void) {
  fputs(zsh_head, stdout);
  put_flags(true);
  fputs("'\n  local -a accrue_commands=(\n", stdout);
  for (int i = 0; i < command_record_count; i++) {
    if (!is_command(&command_records[i])) continue;
    printf("    '%s:", command_records[i].name);
    put_quoted(command_records[i].brief);
    fputs("'\n", stdout);
  }
  fputs("  )\n", stdout);
  put_models("  local accrue_models", false);
  put_models("  local accrue_image_models", true);
  put_benches("  local accrue_benches");
  put_groups("  local accrue_groups");
  fputs(zsh_tail, stdout);
}

static int put_help(help_form form) {
  help h = help_begin(form, "completion", "SHELL",
                      "Writes a script that completes commands, models, flags and their values. "
                      "SHELL is bash or zsh. An installation has both scripts already.");
  if (form == HELP_TEXT) help_paragraph(&h, "source <(accrue completion bash)");
  help_end(&h);
  return STATUS_DONE;
}

int completion_main(int argc, char **argv) {
  for (int i = 0; i < argc; i++)
    if (help_asked(argv[i])) return put_help(help_asked(argv[i]));
  if (argc != 1)
    return fail_usage("a shell is missing: give accrue completion bash, or accrue completion zsh");
  if (!strcmp(argv[0], "bash")) put_bash();
  else if (!strcmp(argv[0], "zsh")) put_zsh();
  else return fail_usage("unknown shell %s: it must be bash or zsh", argv[0]);
  return STATUS_DONE;
}
