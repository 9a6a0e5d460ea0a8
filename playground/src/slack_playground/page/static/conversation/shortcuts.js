// Using an app's shortcut, and the words for an app that did not answer.

import { toast } from "../base/dom.js";
import { post } from "../base/net.js";
import { store } from "../base/store.js";

const UNANSWERED = { dispatch_failed: "The app isn't connected.", operation_timeout: "The app didn't respond within 3 seconds." };

/** Why nothing happened, where the app did not acknowledge; else undefined. */
export const unanswered = (outcome) => UNANSWERED[outcome];

/** Use a shortcut; `where` names a message, if it is one on a message. */
export async function useShortcut(callback, where = {}) {
  try {
    const answer = await post("shortcut", { as: store.acting, callback_id: callback, ...where });
    if (unanswered(answer.outcome)) toast(unanswered(answer.outcome));
  } catch (error) {
    toast(error.message);
  }
}
