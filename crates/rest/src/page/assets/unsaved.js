// Asks before a form with unsaved changes is left, or a secret that was not stored.

import { useEffect, useRef } from "./vendor/htm-preact.js";

const questions = new Map(); // what the person is asked, by the component that would lose something; a form may be open in a dialog over another

const question = () => [...questions.values()].at(-1) || "";

export const hasUnsaved = () => questions.size > 0;

/** Everything is saved, or may be lost. */
export const forgetUnsaved = () => questions.clear();

/** Whether the page may be left: nothing is lost, or the person agrees. */
export const mayLeave = () => !questions.size || confirm(question());

/** Says what the person is asked before a component is left. With an empty text nothing is asked. Returns whether this component may be left. */
export function useUnsaved(asked) {
  const own = useRef({}).current;
  useEffect(() => {
    if (!asked) return undefined;
    questions.set(own, asked);
    const closing = (event) => questions.size && event.preventDefault();
    addEventListener("beforeunload", closing);
    return () => {
      questions.delete(own);
      removeEventListener("beforeunload", closing);
    };
  }, [asked]);
  return () => !questions.has(own) || confirm(asked);
}
