// Asking before something happens, in a dialog of its own.

import { el } from "../base/dom.js";
import { textObject, wordsOf } from "./mrkdwn.js";

/** Shows a confirm object; true when the person agrees. The focus goes back to where it came from. */
export function confirmWith(confirm, origin) {
  return new Promise((resolve) => {
    const done = (answer) => {
      dialog.close();
      dialog.remove();
      origin?.focus?.();
      resolve(answer);
    };
    const yes = el("button.action", { type: "button", class: confirm.style === "danger" ? "danger" : "primary", onclick: () => done(true) }, wordsOf(confirm.confirm));
    const no = el("button.action", { type: "button", onclick: () => done(false) }, wordsOf(confirm.deny));
    const dialog = el("dialog.modal.confirm", { "aria-labelledby": "confirm-title", "aria-describedby": "confirm-text" },
      el("header", {}, el("h2", { id: "confirm-title", dir: "auto" }, wordsOf(confirm.title))),
      el("div.modal-body", { id: "confirm-text" }, textObject(confirm.text)),
      el("footer", {}, no, yes));
    dialog.addEventListener("cancel", (event) => { event.preventDefault(); done(false); });
    document.getElementById("dialogs").append(dialog);
    dialog.showModal();
    yes.focus();
  });
}

/** Asks with words of the page's own. */
export const ask = (title, text, yes, origin) =>
  confirmWith({ title: { text: title }, text: { type: "plain_text", text }, confirm: { text: yes }, deny: { text: "Cancel" }, style: "danger" }, origin);
