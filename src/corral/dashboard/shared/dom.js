// Elements and dialogs. Text from the API is only ever set as text.

export const $ = (id) => document.getElementById(id);

export function el(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name === "data") Object.assign(made.dataset, value);
    else if (name in made) made[name] = value;
    else made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function webAddress(text) {
  const known = text && URL.canParse(text) && ["http:", "https:"].includes(new URL(text).protocol);
  return known ? text : null; // a provider's answer must not become a script
}

let noticeEnds;
export function notice(text) {
  $("notice").hidden = false;
  setText($("notice"), text);
  clearTimeout(noticeEnds);
  noticeEnds = setTimeout(() => ($("notice").hidden = true), 6000);
}

export function refuse(dialog, error) {
  $(`${dialog}-error`).hidden = false;
  setText($(`${dialog}-error`), error.message);
}

export async function perform(dialog, doing) {
  $(`${dialog}-go`).disabled = true;
  try {
    await doing();
    $(dialog).close();
  } catch (error) {
    refuse(dialog, error);
  }
  $(`${dialog}-go`).disabled = false;
}
