"use strict";
// Asks for the changing part once a second and puts it in place when it has changed.
(() => {
  const part = document.getElementById("part");
  const status = document.getElementById("status");
  const say = (text) => { if (status.textContent !== text) status.textContent = text; };
  const follow = async () => {
    try {
      const reply = await fetch("part", { cache: "no-store" });
      if (!reply.ok) throw new Error(String(reply.status));
      const parsed = new DOMParser().parseFromString(await reply.text(), "text/html");
      const fresh = [...parsed.querySelectorAll("section")];
      if (fresh.length !== part.children.length) part.replaceChildren(...fresh);
      else {
        [...part.children].forEach((old, k) => {
          if (old.innerHTML !== fresh[k].innerHTML) old.replaceWith(fresh[k]);
        });
      }
      say(parsed.querySelector("[data-status]").dataset.status);
      if (!parsed.querySelector("[data-ended]")) setTimeout(follow, 1000);
    } catch {
      say("The run was stopped, or this page cannot reach it any more. This was its last state.");
    }
  };
  follow();
})();
