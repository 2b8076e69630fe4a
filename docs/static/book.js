/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps the tab that a reader has chosen, such as a language, for the next page. */
document.addEventListener("DOMContentLoaded", () => {
  const kept = (label) => "tab of " + [...label.parentElement.children].filter(
    (child) => child.className === "tab-label").map((child) => child.textContent).join();
  for (const label of document.getElementsByClassName("tab-label")) {
    if (localStorage.getItem(kept(label)) === label.textContent)
      label.previousElementSibling.checked = true;
    label.addEventListener("click", () => localStorage.setItem(kept(label), label.textContent));
  }
});
