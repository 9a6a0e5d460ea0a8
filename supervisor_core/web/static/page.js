// Replaces the page's content when the supervisor says that something has changed.
"use strict";

const offline = document.getElementById("offline");

async function refresh() {
  const answer = await fetch("content");
  if (!answer.ok) return;
  document.getElementById("page").innerHTML = await answer.text();
}

const changes = new EventSource("changes");
changes.onopen = () => { offline.hidden = true; refresh(); };
changes.onmessage = refresh;
changes.onerror = () => { offline.hidden = false; };
