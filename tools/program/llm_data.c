/* What `accrue train llm` learns: chats and texts as tokens of the model. */
#include "program/llm_kind.h"

#include "common/message.h"

#include <stddef.h>

/* The template that a flag names, or the model's own; NULL: the model has none, and data that need
 * one are refused. */
static int find_template(const llm_model *model, const ac_chat_template **found) {
  *found = NULL;
  if (model->chat_template)
    return ac_chat_template_find(found, model->chat_template) == AC_OK
               ? STATUS_CONTINUE
               : fail_setup(AC_ERROR_ARGUMENT);
  const char *jinja = ac_model_chat_template(model->model);
  if (!jinja || ac_chat_template_recognise(found, jinja) == AC_OK) return STATUS_CONTINUE;
  return fail("%s: %s; name one with --template, or give data that are rendered already (text and "
              "spans)",
              model->path, ac_last_error());
}

static int make_datasets(llm_model *model, train_data *data) {
  ac_chat_info info;
  ac_chat_get_info(model->chat, &info);
  const bool pairs = model->objective == OBJECTIVE_DPO;
  data->unit = "token";
  data->tokens_per_sample = pairs ? 2 * model->context : model->context;
  data->loss_unit = pairs ? "pair" : NULL;
  if (ac_dataset_from_chat(&data->train, model->chat, false) != AC_OK) return fail_library();
  if (info.validation.samples &&
      ac_dataset_from_chat(&data->validation, model->chat, true) != AC_OK)
    return fail_library();
  return STATUS_CONTINUE;
}

static int open_questions(llm_model *model, ac_tokenizer *tokenizer, train_data *data) {
  const int64_t most = model->context;
  const int status = llm_choices_open(&model->choices, model->data, tokenizer, model->info.begin);
  if (status != STATUS_CONTINUE) return status;
  if (model->choices.context > most)
    return fail_usage("%s has an answer of %lld tokens with its question, and --context is %lld",
                      model->data, (long long)model->choices.context + 1, (long long)most);
  model->context = data->tokens_per_sample = model->choices.context;
  data->unit = "token";
  if (llm_choices_dataset(&data->train, &model->choices) != AC_OK) return fail_library();
  return STATUS_CONTINUE;
}

static int open_data(llm_model *model, train_data *data) {
  ac_tokenizer *tokenizer;
  char begin[256], end[256];
  const ac_chat_template *template;
  if (ac_model_tokenizer(model->model, &tokenizer) != AC_OK) return fail_library();
  const bool pairs = model->objective == OBJECTIVE_DPO;
  if (model->evaluates && !pairs && llm_choices_are_in(model->data))
    return open_questions(model, tokenizer, data);
  const int status = find_template(model, &template);
  if (status != STATUS_CONTINUE) return status;
  const ac_model_info *info = &model->info;
  const ac_chat_desc desc = {
      .tokenizer = tokenizer,
      .chat_template = template,
      .context = model->context,
      .learn = (ac_chat_learn)model->learn,
      .no_packing = model->no_pack,
      .preferences = pairs,
      .long_documents = model->drop_long ? AC_LONG_DROP : AC_LONG_CUT,
      .validation = data->undivided ? 0 : model->held_out,
      .begin = language_model_token(tokenizer, info->begin, begin, sizeof begin),
      .end =
          language_model_token(tokenizer, info->end_count ? info->ends[0] : -1, end, sizeof end)};
  if (ac_chat_open(&model->chat, model->data, &desc) != AC_OK) return fail_library();
  return make_datasets(model, data);
}

/* Nothing becomes tokens after that. */
int llm_open_data(llm_model *model, train_data *data) {
  const int status = open_data(model, data);
  ac_model_close_tokenizer(model->model);
  return status;
}
